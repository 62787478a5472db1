"""Alignments by substitutions, insertions and deletions."""
