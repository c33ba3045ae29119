"""Dataset readers: one file per layout, named as in recipes."""
