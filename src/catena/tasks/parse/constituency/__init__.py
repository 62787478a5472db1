"""Sentences into phrase-structure trees."""
