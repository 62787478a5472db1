"""Distributions over chains, segmentations, trees, alignments and paths that answer every question."""
