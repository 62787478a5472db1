"""Span trees: sums and searches. Tested in tests/kernels/test_tree.py and tests/structure/test_tree.py."""
