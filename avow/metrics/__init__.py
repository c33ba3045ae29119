"""Metrics: one file each, from similarities and truth to numbers."""
