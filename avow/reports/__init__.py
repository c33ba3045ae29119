"""Pages that people read: HTML, drawings and tables."""
