"""Indexing cut into units of work, which one process or many machines do in any order."""
