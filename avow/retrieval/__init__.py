"""Search over an index of photographs and texts, with how far to trust its answers."""
