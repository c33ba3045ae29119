"""Floor 2: frozen networks, photographs or captions in, features out. One file each."""
