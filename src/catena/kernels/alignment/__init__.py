"""Alignments by substitutions, insertions and deletions.

Tested in tests/kernels/test_alignment.py and tests/structure/test_alignment.py.
"""
