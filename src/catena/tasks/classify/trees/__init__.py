"""Trees into classes: one for the root, and one for every other node."""
