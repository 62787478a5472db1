"""Segmentations: sums and searches of labeled segments. Tested in tests/structure/test_semimarkov.py."""
