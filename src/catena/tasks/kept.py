"""Names of what a task keeps beside the weights of its model and its ``config.toml``; the same in every task."""

from __future__ import annotations

TOKENIZER = "tokenizer"
"""The folder of a tokenizer."""
VOCABULARY = "vocabulary.json"
LABELS = "labels.json"
"""The names of classes, or of tags."""
