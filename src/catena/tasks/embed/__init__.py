"""Vectors of words, from text: train them, go on with them, ask them."""
