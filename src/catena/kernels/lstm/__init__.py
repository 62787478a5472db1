"""LSTM layers over sequences of several lengths. Tested in tests/kernels/test_lstm.py."""
