"""N-gram models: tokens, counts, estimates and queries."""
