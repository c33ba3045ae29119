"""How much time and memory it takes."""
