"""Losses: one file each, one `build` each, all reading the same similarity matrices."""
