"""Wrong captions: which pairs of a dataset do not fit, for people to look through."""
