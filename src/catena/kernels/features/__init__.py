"""Taggers on sparse features."""
