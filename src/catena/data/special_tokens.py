"""Names of all special tokens: tokens that have an id but are not text.

Every vocabulary begins with ``<pad>`` = 0 and ``<unk>`` = 1; a model adds the others that it needs.
"""

from __future__ import annotations

PAD_SYMBOL = "<pad>"
"""Fills up the shorter sequences of a batch."""
UNK_SYMBOL = "<unk>"
"""Stands for every token outside the vocabulary."""
BEGIN_SYMBOL = "<s>"
"""Comes before the first token of a sequence."""
END_SYMBOL = "</s>"
"""Comes after the last token of a sequence. fastText uses the same name."""
MASK_SYMBOL = "<mask>"
"""Hides a token that a masked language model predicts."""
ITEM_SYMBOL = "<item>"
"""Stands for an item of the list that a composed text must mention."""
TURN_SYMBOL = "<turn>"
"""Ends a turn of a conversation."""
ME_SYMBOL = "<me>"
"""Begins a turn of the responder."""
YOU_SYMBOL = "<you>"
"""Begins a turn of the other speaker."""

NAMES_IN_TEXT = (PAD_SYMBOL, UNK_SYMBOL, BEGIN_SYMBOL, END_SYMBOL, MASK_SYMBOL)
"""Names that texts may contain, as in corpora with a closed vocabulary. Word tokenizers keep them whole."""
SPECIAL_TOKENS = (*NAMES_IN_TEXT, ITEM_SYMBOL, TURN_SYMBOL, ME_SYMBOL, YOU_SYMBOL)
"""All special tokens of the package."""
