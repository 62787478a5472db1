"""The parser as an estimator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from catena import config as configs
from catena.data.examples import ConlluRow, ConlluSentence, SourceLocation, Tree
from catena.data.readers.brackets import parse as parse_brackets
from catena.data.reading import Dropped
from catena.errors import DataError
from catena.tasks.estimator import Estimator
from catena.tasks.parse.config import ParseConfig
from catena.tasks.parse.data import ParseExample


class Parser(Estimator, task="parse"):
    """Parser: sentences as texts or lists of words in, dependency or phrase-structure trees out.

    parser = Parser("span").fit(["(S (NP (D the) (N cat)) (VP (V sleeps)))"] * 20)
    parser = Parser("biaffine").fit([["cats", "sleep"]] * 20, [([2, 0], ["nsubj", "root"])] * 20)
    [p.heads for p in parser.predict(["dogs sleep"])]

    ``fit`` gets trees (brackets as text, or what the readers of ``catena.data`` return), or for dependencies the words
    of each sentence and a pair of its heads, counted from 1 with 0 for the root, and its relations.
    """

    def _examples(self, x: Iterable[Any], y: Iterable[Any] | None) -> Iterable[ParseExample[Any]]:
        config = configs.parse(ParseConfig, self.config_values())
        family: Any = self.spec.family(config)
        wanted = ConlluSentence if family.tree_format == "conllu" else Tree
        trees = x if y is None else _sentences(list(x), list(y))
        for number, tree in enumerate(trees, start=1):
            tree = parse_brackets(tree, f"tree {number}") if isinstance(tree, str) else tree
            if not isinstance(tree, wanted):
                raise DataError(
                    f"tree {number} must be a {wanted.__name__} for model {config.model.kind!r}, got "
                    f"{type(tree).__name__}. Use model='span' for brackets, and model='biaffine' for dependencies."
                )
            example = family.from_tree(config, tree)
            if isinstance(example, Dropped):
                raise DataError(f"tree {number} cannot be used: it is one {example.reason}. Remove or correct it.")
            yield example


def _sentences(sentences: Sequence[Sequence[str]], trees: Sequence[Any]) -> list[ConlluSentence]:
    """Sentences in CoNLL-U, from words, and heads and relations. Raise DataError if the numbers differ."""
    if len(sentences) != len(trees):
        raise DataError(f"y must have one tree per sentence ({len(sentences)}), got {len(trees)}. Pass as many trees.")
    for i, (words, tree) in enumerate(zip(sentences, trees, strict=True)):
        parts = tree if isinstance(tree, Sequence) else ()
        sizes = [len(part) if isinstance(part, Sequence | np.ndarray) else -1 for part in parts]
        if isinstance(words, str) or sizes != [len(words)] * 2:
            raise DataError(
                f"tree {i + 1} must be the heads and the relations of its words, got {tree!r:.60} for {words!r:.60}. "
                f"Pass ([2, 0], ['nsubj', 'root']) for ['cats', 'sleep']."
            )
    return [_sentence(*pair) for pair in zip(sentences, trees, strict=True)]


def _sentence(words: Sequence[str], tree: tuple[Sequence[int], Sequence[str]]) -> ConlluSentence:
    """A sentence in CoNLL-U, from words, heads and relations."""
    heads, n = tree[0], len(words)
    if wrong := [head for head in heads if not 0 <= head <= n]:
        raise DataError(f"heads must be from 0 to {n}, the number of words, got {wrong[0]}. Use 0 for the root.")
    rows = [
        ConlluRow(str(i), word, "_", "_", "_", "_", str(head), relation, "_", "_")
        for i, (word, head, relation) in enumerate(zip(words, *tree, strict=True), start=1)
    ]
    return ConlluSentence(tuple(rows), (), SourceLocation("fit", 0))
