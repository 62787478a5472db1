"""Tagging: a tag for each word, such as parts of speech, chunks, named entities, slots, or Chinese word boundaries."""
