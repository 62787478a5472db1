"""Sentences into trees: dependencies from CoNLL-U, phrase structure from brackets."""
