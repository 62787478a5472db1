"""Parses of context-free grammars with dense, low-rank and sparse rules.

Tested in tests/kernels/test_pcfg.py and tests/structure/test_pcfg.py.
"""
