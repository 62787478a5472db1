"""Connectionist temporal classification. Tested in tests/structure/test_ctc.py."""
