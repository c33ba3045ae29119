"""Trust: when to answer, how much to show, and when a promise no longer holds."""
