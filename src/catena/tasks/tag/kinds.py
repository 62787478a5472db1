"""Names common to all kinds of taggers. Imports no torch."""

from __future__ import annotations

from typing import Literal

StructureName = Literal["crf", "softmax", "memm", "perceptron", "margin", "semimarkov"]
"""How the tags of a sentence depend on each other, and the training objective:

* crf: all tags together, p(y | x) by exact sums over all tag sequences (Lafferty et al. 2001);
* softmax: each tag independently;
* memm: each tag given the previous one, normalized at each word (McCallum et al. 2000);
* perceptron: the best sequence must be the gold one (Collins 2002);
* margin: the gold sequence must win by a margin that grows with the number of wrong tags (Taskar et al. 2003);
* semimarkov: whole segments instead of tags (Sarawagi & Cohen 2004).
"""

_CHAINS = ("crf", "softmax", "memm", "perceptron", "margin")
"""Structures over tag sequences."""
