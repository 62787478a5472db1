"""Sentences to sentences: translation, and summaries, which are the same with other data."""
