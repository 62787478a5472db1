"""Linear chains: sums, scores and searches of tag sequences.

Tested in tests/kernels/test_chain_kernels.py and tests/structure/test_chain.py.
"""
