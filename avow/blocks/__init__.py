"""Floor 1: layers and loaders shared by two or more methods."""
