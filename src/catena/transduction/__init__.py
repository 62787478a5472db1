"""Strings to strings by exact sums: units learned by alignment, n-grams of them, and edits in context."""
