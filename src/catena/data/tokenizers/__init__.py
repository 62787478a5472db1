"""Tokenizers: plain (whitespace, characters, bytes), words, and trained subwords."""
