"""Tokenizers by family: plain (whitespace, characters, bytes), words, and trained subwords."""
