r"""Labeled brackets of parses, as scored by EVALB with its usual parameter file (COLLINS.prm).

With ``hits`` the brackets of both trees, matched one to one by label, first and last word:

.. math::  P = hits / given \qquad  R = hits / gold \qquad  F_1 = 2\,hits / (given + gold)

* Words with the tags ``, : `` '' .`` and ``-NONE-`` are removed first, with the brackets that contain nothing else.
* The brackets ``TOP``, ``ROOT``, ``S1`` and the one without a label are not counted, nor are tags over single words.
  All other unary brackets are counted.
* ``ADVP`` and ``PRT`` are one label, and function tags are ignored: ``NP-SBJ`` is ``NP``.
* A predicted bracket *crosses* if a reference bracket overlaps it without containing it or being contained in it.
* Tags are compared at the remaining words.

EVALB skips a sentence if its punctuation is tagged differently in the reference. Here the reference tags determine for
both trees which words count, so no sentence is skipped. If the tags agree, the scores are the same. Black et al.
(1991); Sekine & Collins (1997).

The input is words, tags and spans instead of trees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float

from catena.errors import DataError
from catena.metrics.measure import Metric, MetricValue, as_pairs, signature
from catena.metrics.text_table import table_lines

_Span = tuple[str, int, int]
"""A label, the first word, and the word after the last."""


@dataclass(frozen=True)
class Bracketing:
    """A parse of one sentence as words, tags and spans.

    Args:
        words: the words.
        tags: the tag of each word.
        spans: ``(label, first, end)`` of each bracket above the tags, from word ``first`` to ``end - 1``.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    spans: tuple[_Span, ...]

    def __post_init__(self) -> None:
        n = len(self.words)
        if len(self.tags) != n:
            raise DataError(f"A parse must have one tag for each of its {n} words, got {len(self.tags)}. Match them.")
        for label, first, end in self.spans:
            if not 0 <= first <= end <= n:
                raise DataError(
                    f"A bracket must be within {n} words, got {label!r} from {first} to {end}. Correct the span."
                )


@dataclass(frozen=True)
class BracketRules:
    """What is counted. The defaults are COLLINS.prm plus more names of the top bracket."""

    name: str = "evalb-collins"
    left_out_tags: frozenset[str] = frozenset({"-NONE-", ",", ":", "``", "''", "."})
    left_out_labels: frozenset[str] = frozenset({"", "TOP", "ROOT", "S1"})
    same: tuple[tuple[str, str], ...] = (("PRT", "ADVP"),)
    labeled: bool = True

    def label(self, label: str) -> str:
        """The label for comparison: without function tags, and normalized for equivalent labels."""
        bare = label if label.startswith("-") else label.split("-", 1)[0].split("=", 1)[0]
        return dict(self.same).get(bare, bare) if self.labeled else "X"

    def counts(self, label: str) -> bool:
        """Whether brackets with this label are counted."""
        bare = label if label.startswith("-") else label.split("-", 1)[0].split("=", 1)[0]
        return bare not in self.left_out_labels and bare not in self.left_out_tags


_COLLINS = BracketRules()
UNLABELED = BracketRules("evalb-collins|unlabeled", labeled=False)

CUTOFF = 40
"""EVALB also reports sentences of up to this many words, including punctuation."""

_COLUMNS = ("hits", "gold", "given", "complete", "crossing", "uncrossed", "few_crossed", "right_tags", "tags", "one")
_AT = {name: place for place, name in enumerate(_COLUMNS)}


def bracket_statistics(
    references: Sequence[Bracketing], predictions: Sequence[Bracketing], rules: BracketRules = _COLLINS
) -> Float[np.ndarray, "n s"]:
    """The statistics of each sentence."""
    gold, given = as_pairs("bracket F1", references, predictions)
    return np.array([_statistics(a, b, rules, i) for i, (a, b) in enumerate(zip(gold, given, strict=True))], float)


def bracket_scores(
    references: Sequence[Bracketing],
    predictions: Sequence[Bracketing],
    rules: BracketRules = _COLLINS,
    longest: int | None = None,
) -> dict[str, MetricValue]:
    """The scores of EVALB's summary: f1, precision, recall, complete, crossing, uncrossed, few_crossed, tagging.

    Args:
        references: the trees of the treebank.
        predictions: the predicted trees over the same words.
        rules: what is counted.
        longest: score only sentences of up to this many words; :data:`CUTOFF` for EVALB's second table.

    Returns:
        The scores by name, as fractions of 1.
    """
    gold, given = as_pairs("bracket F1", references, predictions)
    kept = [i for i, one in enumerate(gold) if longest is None or _length(one) <= longest]
    if not kept:
        raise DataError(f"No sentence has {longest} words or fewer. Increase longest.")
    rows = bracket_statistics([gold[i] for i in kept], [given[i] for i in kept], rules)
    options = {"rules": rules.name} | ({} if longest is None else {"longest": longest})
    sums = rows.sum(0)
    return {
        name: MetricValue(float(score(sums)), signature(name, len(rows), options)) for name, score in _SCORES.items()
    }


def bracket_f1(
    references: Sequence[Bracketing], predictions: Sequence[Bracketing], rules: BracketRules = _COLLINS
) -> MetricValue:
    """Labeled bracket F1. Signature ``f1|rules:evalb-collins|n=…``.

    Args:
        references: the brackets of each gold tree.
        predictions: the brackets of each predicted tree, in the same order.
        rules: which brackets and words count; those of EVALB's ``COLLINS.prm`` by default.
    """
    return bracket_scores(references, predictions, rules)["f1"]


def bracket_measure(name: str = "f1", rules: BracketRules = _COLLINS) -> Metric:
    """One of the scores as a function of sums, for intervals and paired tests."""
    if name not in _SCORES:
        raise DataError(f"The bracket score must be one of {', '.join(_SCORES)}, got {name!r}. Use f1.")
    statistics = bracket_statistics if rules is _COLLINS else partial(bracket_statistics, rules=rules)
    return Metric(f"{name}|rules:{rules.name}", statistics, _SCORES[name], higher_is_better=name != "crossing")


def label_table(
    references: Sequence[Bracketing], predictions: Sequence[Bracketing], rules: BracketRules = _COLLINS
) -> list[str]:
    """Lines with precision, recall and F1 of each label, the most frequent label first."""
    hits: Counter[str] = Counter()
    gold: Counter[str] = Counter()
    given: Counter[str] = Counter()
    for i, (one, other) in enumerate(zip(*as_pairs("a table of labels", references, predictions), strict=True)):
        mine, theirs = _brackets(one, other, rules, i)
        for counter, found in ((hits, mine & theirs), (gold, mine), (given, theirs)):
            for (label, _, _), n in found.items():
                counter[label] += n
    rows = [["label", "precision", "recall", "f1", "gold", "given"]]
    for label in sorted(gold | given, key=lambda name: (-gold[name], name)):
        shares = (hits[label], given[label]), (hits[label], gold[label]), (2 * hits[label], gold[label] + given[label])
        rows.append(
            [label, *(f"{100 * a / b if b else 0:.1f}" for a, b in shares), str(gold[label]), str(given[label])]
        )
    return table_lines(rows)


# --- one sentence -----------------------------------------------------------------------------------------------------


def _statistics(gold: Bracketing, given: Bracketing, rules: BracketRules, number: int) -> list[int]:
    mine, theirs = _brackets(gold, given, rules, number)
    hits = (mine & theirs).total()
    crossing = sum(n for span, n in theirs.items() if any(_cross(span, other) for other in mine))
    kept = [tag not in rules.left_out_tags for tag in gold.tags]
    right = sum(k and rules.label(a) == rules.label(b) for k, a, b in zip(kept, gold.tags, given.tags, strict=True))
    complete = hits == mine.total() == theirs.total()
    return [
        hits, mine.total(), theirs.total(), complete, crossing, crossing == 0, crossing <= 2, right, sum(kept), 1,
    ]  # fmt: skip


def _brackets(
    gold: Bracketing, given: Bracketing, rules: BracketRules, number: int
) -> tuple[Counter[_Span], Counter[_Span]]:
    if gold.words != given.words:
        odd = next((i for i, (a, b) in enumerate(zip(gold.words, given.words, strict=False)) if a != b), None)
        what = (
            f"have {len(gold.words)} and {len(given.words)} words"
            if odd is None
            else f"differ in word {odd + 1}: {gold.words[odd]!r} and {given.words[odd]!r}"
        )
        raise DataError(
            f"Both trees of sentence {number + 1} must have the same words, got trees that {what}. Align them."
        )
    places = np.concatenate(([0], np.cumsum([tag not in rules.left_out_tags for tag in gold.tags])))
    return _counted(gold, places, rules), _counted(given, places, rules)


def _counted(parse: Bracketing, places: np.ndarray, rules: BracketRules) -> Counter[_Span]:
    """The counted brackets over the counted words."""
    found: Counter[_Span] = Counter()
    for label, first, end in parse.spans:
        if rules.counts(label) and places[first] < places[end]:
            found[rules.label(label), int(places[first]), int(places[end])] += 1
    return found


def _cross(one: _Span, other: _Span) -> bool:
    return one[1] < other[1] < one[2] < other[2] or other[1] < one[1] < other[2] < one[2]


def _length(parse: Bracketing) -> int:
    return sum(tag != "-NONE-" for tag in parse.tags)


# --- from sums to scores ----------------------------------------------------------------------------------------------


def _ratio(above: tuple[str, ...], below: tuple[str, ...]) -> Callable[[np.ndarray], np.ndarray]:
    def score(sums: Float[np.ndarray, "*batch s"]) -> Float[np.ndarray, "*batch"]:
        top = sum(sums[..., _AT[name]] for name in above)
        bottom = np.asarray(sum(sums[..., _AT[name]] for name in below), float)
        return np.asarray(np.divide(top, bottom, out=np.zeros_like(bottom), where=bottom > 0))

    return score


_SCORES = {
    "f1": _ratio(("hits", "hits"), ("given", "gold")),
    "precision": _ratio(("hits",), ("given",)),
    "recall": _ratio(("hits",), ("gold",)),
    "complete": _ratio(("complete",), ("one",)),
    "crossing": _ratio(("crossing",), ("one",)),
    "uncrossed": _ratio(("uncrossed",), ("one",)),
    "few_crossed": _ratio(("few_crossed",), ("one",)),
    "tagging": _ratio(("right_tags",), ("tags",)),
}
SCORES = tuple(_SCORES)
"""The names of all scores. ``crossing`` is the mean per sentence, ``tagging`` a fraction of words; ``complete`` (all
brackets correct), ``uncrossed`` and ``few_crossed`` (at most 2) are fractions of sentences."""
