"""Names that the kinds of taggers share. Imports no torch."""

from __future__ import annotations

from typing import Literal

StructureName = Literal["crf", "softmax", "memm", "perceptron", "margin", "semimarkov"]
"""How the tags of a sentence are tied to one another, and what is learned:

* crf: all tags together, p(y | x) by exact sums over all tag sequences (Lafferty et al. 2001);
* softmax: each tag by itself;
* memm: each tag given the one before it, normalized word by word (McCallum et al. 2000);
* perceptron: the best sequence must be the right one (Collins 2002);
* margin: it must win by as much as others are wrong (Taskar et al. 2003);
* semimarkov: whole segments instead of tags (Sarawagi & Cohen 2004).
"""

_CHAINS = ("crf", "softmax", "memm", "perceptron", "margin")
"""Structures whose members are sequences of tags."""
