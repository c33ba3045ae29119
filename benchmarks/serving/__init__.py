"""Several servers over one store: what becomes of requests when parts of it fail."""
