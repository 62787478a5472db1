r"""Span metrics: names, chunks, slots, words. A span is correct if its boundaries and its kind are correct.

.. math::  P = right / found \qquad R = right / gold \qquad F_1 = 2\,right / (found + gold)

There are two ways to read tags, which agree for tags that follow their scheme:

* :func:`conll_spans`, as in ``conlleval`` of the CoNLL shared tasks: all tags are accepted; I-x after O begins a span,
  and so does I-x after a tag of another kind.
* :func:`strict_spans`, as in the strict mode of ``seqeval``: tags that violate the scheme are not spans.

Corpus scores are over all spans together (micro average); :func:`span_report` has the scores of each kind.
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
from catena.metrics.text_table import table_lines

_Spans = frozenset[tuple[int, int, str]]
"""(first word, word after the last, kind) of each span of a sentence."""

_Mode = Literal["conlleval", "strict"]
_Scheme = Literal["iob1", "iob2", "bilou"]


# --- from tags to spans -----------------------------------------------------------------------------------------------


def conll_spans(tags: Sequence[str]) -> _Spans:
    """The spans of a sentence as in conlleval, in any scheme, even if tags violate it."""
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
    """Whether a span ends between two adjacent tags."""
    (last, kind), (next_, next_kind) = before, here
    if last in ("E", "S", "L", "U", "]", "["):
        return True
    if last in ("B", "I", "M") and next_ in ("B", "S", "U", "O"):
        return True
    return last not in ("O", ".") and kind != next_kind


def _begins(before: tuple[str, str], here: tuple[str, str]) -> bool:
    """Whether a span begins between two adjacent tags."""
    (last, kind), (next_, next_kind) = before, here
    if next_ in ("B", "S", "U", "[", "]"):
        return True
    if last in ("E", "S", "L", "U", "O") and next_ in ("E", "I", "M", "L"):
        return True
    return next_ not in ("O", ".") and kind != next_kind


def strict_spans(tags: Sequence[str], scheme: _Scheme = "iob2") -> _Spans:
    """The spans that follow the scheme, without the others."""
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
    """The end of a span that begins at i; 0 if there is none."""
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
    # In seqeval, B of another kind directly after B does not end a span.
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
    """``[i]`` has the numbers of correct, predicted and gold spans of sentence i."""
    gold_and_found = as_pairs("the score of spans", references, predictions)
    for sentences in gold_and_found:
        _check_spans(sentences)
    pairs = zip(*gold_and_found, strict=True)
    rows = [(len(set(gold) & set(found)), len(set(found)), len(set(gold))) for gold, found in pairs]
    return np.array(rows, np.float64)


def _check_spans(sentences: Sequence[Iterable[object]]) -> None:
    """Raise DataError for tags instead of spans."""
    for i, spans in enumerate(sentences):
        tag = next((x for x in spans if isinstance(x, str)), None)
        if tag is not None:
            raise DataError(
                f"Span scores need spans (first, end, kind), got the tag {tag!r} in sentence {i}. Call spans_of_tags "
                f"first."
            )


def _ratio(sums: Float[np.ndarray, "*batch 3"], over: tuple[int, ...], times: int) -> np.ndarray:
    below = sum(sums[..., j] for j in over)
    return np.asarray(np.where(below > 0, times * sums[..., 0] / np.where(below > 0, below, 1), 0.0))


F1 = Metric("span-f1", span_statistics, partial(_ratio, over=(1, 2), times=2))
"""F1 of all spans together; 0 if there are none."""
PRECISION = Metric("span-precision", span_statistics, partial(_ratio, over=(1,), times=1))
RECALL = Metric("span-recall", span_statistics, partial(_ratio, over=(2,), times=1))


def span_f1(references: Sequence[_Spans], predictions: Sequence[_Spans]) -> MetricValue:
    """F1 of all spans together.

    Args:
        references: the gold spans of each sentence.
        predictions: the predicted spans of each sentence, in the same order.
    """
    return F1(references, predictions)


def spans_of_tags(
    sentences: Iterable[Sequence[str]], mode: _Mode = "conlleval", scheme: _Scheme = "iob2"
) -> list[_Spans]:
    """The spans of each sentence.

    Args:
        sentences: the tags of each sentence.
        mode: "conlleval" or "strict".
        scheme: the scheme of the strict mode.
    """
    found = []
    for i, tags in enumerate(sentences):
        if isinstance(tags, str):  # its characters would be taken for tags
            raise DataError(f"sentence {i} must be a list of tags, got {tags!r:.60}. Pass a list of sentences: [tags].")
        found.append(conll_spans(tags) if mode == "conlleval" else strict_spans(tags, scheme))
    return found


@dataclass(frozen=True)
class KindScore:
    """The scores of one kind of spans."""

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

    def to_dict(self) -> dict[str, dict[str, float]]:
        """The scores of each kind of span by name, as JSON values."""
        names = ("precision", "recall", "f1", "found", "gold")
        return {one.kind: {name: getattr(one, name) for name in names} for one in self.kinds}


def span_report(references: Sequence[_Spans], predictions: Sequence[_Spans]) -> SpanReport:
    """The scores of each kind of span in the references or the predictions."""
    if len(references) != len(predictions):
        raise DataError(
            f"A span report needs one prediction for each reference, got {len(references)} references and "
            f"{len(predictions)} predictions. Match them."
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
