"""Pages that scripts/docs writes from the code: one module, one page of docs/reference."""
