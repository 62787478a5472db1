"""Names of the files that a task stores next to its weights and ``config.toml``, the same in every task."""

from __future__ import annotations

TOKENIZER = "tokenizer"
"""The folder of the tokenizer."""
VOCABULARY = "vocabulary.json"
LABELS = "labels.json"
"""The file of class names or tags."""
