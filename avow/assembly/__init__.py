"""Floor 3: recipe to objects to numbers."""
