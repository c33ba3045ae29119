"""Searching your own pictures: an index of them, and answers that say how far to trust them."""
