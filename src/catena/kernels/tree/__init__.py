"""Span trees: sums and searches."""
