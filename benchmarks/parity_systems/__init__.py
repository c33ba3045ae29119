"""Parity systems: one file per published family, each saying how to recompute its numbers."""
