"""Models that live outside the package, reached by a dotted name."""
