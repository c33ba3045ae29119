"""The study of a run: how far its answers can be trusted, on a split with known answers."""
