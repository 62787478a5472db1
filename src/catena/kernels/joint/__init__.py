"""Joint n-gram models of two strings: alignment by units, and search."""
