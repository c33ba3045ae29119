"""Where vectors are kept and searched: one file is one engine."""
