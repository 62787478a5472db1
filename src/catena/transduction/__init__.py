"""Strings to strings by exact sums: units learnt by alignment, n-grams of them, and edits in context."""
