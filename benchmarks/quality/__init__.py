"""Whether answers, trust and stored files are right."""
