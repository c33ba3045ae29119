"""Floor 4: from a recipe and features to trained weights."""
