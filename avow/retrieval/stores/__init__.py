"""Where an index lives: one file is one kind of store; the part before the colon of an address.

    photos-index        local: a folder of files on this machine, the usual one
    postgres:archive    a database with pgvector, named by AVOW_PG_DSN
    milvus:archive      a Milvus server, or a file of Milvus Lite, named by AVOW_MILVUS_URI

`retrieval/store_contract.py` is what a shared one must do.
"""
