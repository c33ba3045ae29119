"""What was measured here, and with what.

`quality` asks whether answers and trust are right, `speed` how fast they come; each file is
started from the root of the repository, as in `python -m benchmarks.quality.people`. Figures
go to `results`, what papers printed is in `published`, and `pages` writes both into docs.
"""
