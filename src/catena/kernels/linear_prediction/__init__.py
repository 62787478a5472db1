"""Adaptive linear prediction of series by recursive least squares.

Tested in tests/kernels/linear_prediction.
"""
