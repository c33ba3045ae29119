"""Repeated passes of a trained model, each with something left to chance."""
