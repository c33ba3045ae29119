"""Where pictures may come from: one file is one kind of source, found by its `recognises`.

`build(name)` gives a `Source` (`retrieval/sharding/source.py`).
"""
