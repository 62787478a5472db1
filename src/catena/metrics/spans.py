r"""Spans: names, chunks, slots, words of a segmentation, each right only if its ends and its kind are right.

.. math::  P = right / found \qquad R = right / gold \qquad F_1 = 2\,right / (found + gold)

Two readings of tags, which agree wherever tags follow their scheme and differ where they do not:

* :func:`conll_spans`, as ``conlleval`` of the CoNLL shared tasks: nothing is refused; I-x after O begins a span, and
  so does I-x after a tag of another kind.
* :func:`strict_spans`, as the strict mode of ``seqeval``: what does not follow its scheme is no span.

Every score of a corpus is that of all spans together (micro average); each kind has its own in :func:`span_report`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from jaxtyping import Float

from catena.errors import DataError
from catena.metrics.measure import Metric, MetricValue, as_pairs, signature
from catena.metrics.text import table_lines

_Spans = frozenset[tuple[int, int, str]]
"""(first word, word behind the last, kind) of each span of a sentence."""

_Mode = Literal["conlleval", "strict"]
_Scheme = Literal["iob1", "iob2", "bilou"]


# --- from tags to spans -----------------------------------------------------------------------------------------------


def conll_spans(tags: Sequence[str]) -> _Spans:
    """The spans of a sentence as conlleval reads them, in any of the schemes, also where tags break it."""
    found = []
    begin, before = 0, ("O", "")
    for i, tag in enumerate([*tags, "O"]):
        here = _parted(tag)
        if _ends(before, here):
            found.append((begin, i, before[1]))
        if _begins(before, here):
            begin = i
        before = here
    return frozenset(found)


def _parted(tag: str) -> tuple[str, str]:
    letter, _, kind = tag.partition("-")
    return letter, kind


def _ends(before: tuple[str, str], here: tuple[str, str]) -> bool:
    """Whether a span ends between two neighbors."""
    (last, kind), (next_, next_kind) = before, here
    if last in ("E", "S", "L", "U", "]", "["):
        return True
    if last in ("B", "I", "M") and next_ in ("B", "S", "U", "O"):
        return True
    return last not in ("O", ".") and kind != next_kind


def _begins(before: tuple[str, str], here: tuple[str, str]) -> bool:
    """Whether a span begins between two neighbors."""
    (last, kind), (next_, next_kind) = before, here
    if next_ in ("B", "S", "U", "[", "]"):
        return True
    if last in ("E", "S", "L", "U", "O") and next_ in ("E", "I", "M", "L"):
        return True
    return next_ not in ("O", ".") and kind != next_kind


def strict_spans(tags: Sequence[str], scheme: _Scheme = "iob2") -> _Spans:
    """The spans that follow the scheme; the others are not there."""
    parted = [_parted(tag) for tag in tags]
    found, i = [], 0
    while i < len(parted):
        end = _STRICT[scheme](parted, i)
        if end:
            found.append((i, end, parted[i][1]))
        i = end or i + 1
    return frozenset(found)


_Parted = Sequence[tuple[str, str]]


def _iob2_end(tags: _Parted, i: int) -> int:
    """The end of a span that begins at i; 0 if none does."""
    if tags[i][0] != "B":
        return 0
    end = i + 1
    while end < len(tags) and tags[end] == ("I", tags[i][1]):
        end += 1
    return end


def _iob1_end(tags: _Parted, i: int) -> int:
    letter, kind = tags[i]
    before = tags[i - 1] if i else ("O", "")
    behind = before[0] in ("I", "B") and before[1] == kind
    if not (letter == "I" and before != ("I", kind)) and not (letter == "B" and behind):
        return 0
    end = i + 1
    while end < len(tags) and tags[end] == ("I", kind):
        end += 1
    # A B of another kind right behind a B ends nothing in seqeval's table.
    cut_off = tags[end - 1][0] == "B" and end < len(tags) and tags[end][0] == "B" and tags[end][1] != kind
    return 0 if cut_off else end


def _bilou_end(tags: _Parted, i: int) -> int:
    letter, kind = tags[i]
    if letter in ("U", "S"):
        return i + 1
    if letter != "B":
        return 0
    end = i + 1
    while end < len(tags) and tags[end][0] in ("I", "M") and tags[end][1] == kind:
        end += 1
    whole = end < len(tags) and tags[end][0] in ("L", "E") and tags[end][1] == kind
    return end + 1 if whole else 0


_STRICT = {"iob1": _iob1_end, "iob2": _iob2_end, "bilou": _bilou_end}


# --- scores -----------------------------------------------------------------------------------------------------------


def span_statistics(references: Sequence[Iterable[object]], predictions: Sequence[Iterable[object]]) -> np.ndarray:
    """``[i]`` holds right, found and gold spans of sentence i."""
    gold_and_found = as_pairs("the score of spans", references, predictions)
    for sentences in gold_and_found:
        _check_spans(sentences)
    pairs = zip(*gold_and_found, strict=True)
    rows = [(len(set(gold) & set(found)), len(set(found)), len(set(gold))) for gold, found in pairs]
    return np.array(rows, np.float64)


def _check_spans(sentences: Sequence[Iterable[object]]) -> None:
    """Raise for tags, of which each kind would be taken for one span."""
    for i, spans in enumerate(sentences):
        tag = next((x for x in spans if isinstance(x, str)), None)
        if tag is not None:
            raise DataError(
                f"the score of spans needs spans (first, end, kind), but sentence {i} has the tag {tag!r}: "
                "call spans_of_tags first"
            )


def _ratio(sums: Float[np.ndarray, "*batch 3"], over: tuple[int, ...], times: int) -> np.ndarray:
    below = sum(sums[..., j] for j in over)
    return np.asarray(np.where(below > 0, times * sums[..., 0] / np.where(below > 0, below, 1), 0.0))


F1 = Metric("span-f1", span_statistics, partial(_ratio, over=(1, 2), times=2))
"""F1 of all spans together; 0 where there is none."""
PRECISION = Metric("span-precision", span_statistics, partial(_ratio, over=(1,), times=1))
RECALL = Metric("span-recall", span_statistics, partial(_ratio, over=(2,), times=1))


def span_f1(references: Sequence[_Spans], predictions: Sequence[_Spans]) -> MetricValue:
    """F1 of all spans together."""
    return F1(references, predictions)


def spans_of_tags(
    sentences: Iterable[Sequence[str]], mode: _Mode = "conlleval", scheme: _Scheme = "iob2"
) -> list[_Spans]:
    """The spans of each sentence in one of the two readings."""
    return [conll_spans(tags) if mode == "conlleval" else strict_spans(tags, scheme) for tags in sentences]


@dataclass(frozen=True)
class KindScore:
    """How well spans of one kind are found."""

    kind: str
    right: int
    found: int
    gold: int

    @property
    def precision(self) -> float:
        return self.right / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        return self.right / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        return 2 * self.right / (self.found + self.gold) if self.found + self.gold else 0.0


@dataclass(frozen=True)
class SpanReport:
    """The kinds of spans by name, and all of them together."""

    kinds: tuple[KindScore, ...]
    overall: KindScore
    n: int

    @property
    def signature(self) -> str:
        return signature("span-f1", self.n)

    def lines(self) -> list[str]:
        rows = [["", "precision", "recall", "f1", "found", "gold"]]
        for one in (*self.kinds, self.overall):
            numbers = [f"{number:.4f}" for number in (one.precision, one.recall, one.f1)]
            rows.append([one.kind or "(no kind)", *numbers, str(one.found), str(one.gold)])
        return table_lines(rows)


def span_report(references: Sequence[_Spans], predictions: Sequence[_Spans]) -> SpanReport:
    """The scores of each kind of span that is in the references or the predictions."""
    if len(references) != len(predictions):
        raise DataError(
            f"a report on spans needs one prediction for each reference, but there are {len(references)} references "
            f"and {len(predictions)} predictions"
        )
    right: Counter[str] = Counter()
    found: Counter[str] = Counter()
    gold: Counter[str] = Counter()
    for ours, theirs in zip(references, predictions, strict=True):
        gold.update(kind for _, _, kind in ours)
        found.update(kind for _, _, kind in theirs)
        right.update(kind for _, _, kind in ours & theirs)
    kinds = [KindScore(kind, right[kind], found[kind], gold[kind]) for kind in sorted(gold | found)]
    overall = KindScore("all", right.total(), found.total(), gold.total())
    return SpanReport(tuple(kinds), overall, len(references))
