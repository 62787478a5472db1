"""Words within a few edits of a word, and how probable the edits are."""
