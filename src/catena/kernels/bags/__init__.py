"""Linear models on bags of features: n-grams of symbols, and passes of gradient steps over sparse rows.

Tested in tests/kernels/bags.
"""
