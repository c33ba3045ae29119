"""Ways to doubt an answer; each public module here is one (see `core.contracts.Probe`)."""
