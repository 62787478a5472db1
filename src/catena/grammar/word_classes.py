"""Classes of rare or unknown words by their spelling, from the finest to the coarsest.

>>> word_classes("Unfathomably")
('UNK:cap:ly', 'UNK:cap', 'UNK')

Tested in tests/grammar/test_induce.py.
"""

from __future__ import annotations

UNKNOWN = "UNK"

_SUFFIXES = ("ing", "ion", "ity", "ment", "ness", "able", "est", "ed", "er", "ly", "al", "s", "y")


def word_classes(word: str) -> tuple[str, ...]:
    """Return the classes by capitals, digits, hyphen and suffix, each before its coarser ones."""
    shape = [name for name, there in _features(word) if there]
    ending = next(
        (suffix for suffix in _SUFFIXES if word.lower().endswith(suffix) and len(word) > len(suffix) + 1), None
    )
    full = [UNKNOWN, *shape, *([ending] if ending and "num" not in shape else [])]
    return tuple(":".join(full[:n]) for n in range(len(full), 0, -1))


def _features(word: str) -> list[tuple[str, bool]]:
    return [
        ("num", any(c.isdigit() for c in word)),
        ("caps", len(word) > 1 and word.isupper()),
        ("cap", word[:1].isupper() and not (len(word) > 1 and word.isupper())),
        ("dash", "-" in word[1:-1]),
    ]
