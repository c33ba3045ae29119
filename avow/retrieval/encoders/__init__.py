"""Encoders: joint spaces of photographs and texts, one file per kind."""
