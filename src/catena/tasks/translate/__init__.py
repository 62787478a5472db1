"""Sequence-to-sequence models for translation and summarization."""
