"""Where items and vectors live: the files of an index, read and written.

changes -> ingest -> reading -> writer -> rows and catalogue        (one writer)
state, items, filtering (in a server: filter_process), feedback     (any number of readers)
inspection, repair, upgrade                                         (`avow check`, `--rebuild`)
"""
