"""Generation with dilated convolutions, one position after another, with a queue for each layer.

Tested in tests/kernels/wavenet.
"""
