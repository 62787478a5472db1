"""Dependency trees, projective and non-projective.

Tested in tests/kernels/test_eisner.py, tests/kernels/test_matrix_tree.py and tests/kernels/test_arborescence.py.
"""
