"""One-to-one alignments. Tested in tests/structure/test_alignment_one_to_one.py."""
