"""Floor 0: the words every other part uses. Imports nothing of the package."""
