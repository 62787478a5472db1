"""Parses of context-free grammars with dense, low-rank and sparse rules."""
