"""Importing: one file per published system, each with one `translate`."""
