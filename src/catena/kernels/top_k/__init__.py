"""The k largest of many numbers. Tested in tests/kernels/test_top.py."""
