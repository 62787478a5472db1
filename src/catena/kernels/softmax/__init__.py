"""The likelihood of a softmax layer over many words. Tested in tests/outputs/test_softmax.py."""
