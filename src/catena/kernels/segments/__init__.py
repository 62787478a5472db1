"""Segmentations: sums and searches of labeled segments."""
