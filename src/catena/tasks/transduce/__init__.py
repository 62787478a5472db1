"""Strings to strings: pronunciations, transliterations, spellings, inflected forms."""
