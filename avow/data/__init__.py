"""Datasets: one reader per file layout, and captions as numbers.

Files without a leading underscore are readers, named as in recipes; the others are
shared by them or by training.
"""
