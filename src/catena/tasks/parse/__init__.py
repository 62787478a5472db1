"""Parsing: dependency trees from CoNLL-U, phrase-structure trees from brackets."""
