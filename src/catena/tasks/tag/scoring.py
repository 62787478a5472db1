"""Scores and a report from gold and predicted tags in the scheme of the files. Numpy only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from catena.errors import ConfigError, DataError
from catena.metrics import spans as span_metrics
from catena.metrics.classification import label_report
from catena.metrics.confusion import confusion_table
from catena.metrics.intervals import bootstrap_score_interval, wilson_interval
from catena.metrics.measure import Metric, mean_score
from catena.tasks.tag.tagging import TagSet
from catena.tasks.unseen import unseen_line

_TagLists = Sequence[Sequence[str]]
_SPAN_MARKS = frozenset("BIOLUESM")
"""Prefixes of span tags in any scheme, which are the whole tag if spans have no kind."""
_MOST_LABELS = 40
"""Maximum number of tags with their own row in a report."""


def _accuracy_statistics(references: _TagLists, predictions: _TagLists) -> np.ndarray:
    """Number of correct words and of all words in each sentence."""
    pairs = zip(references, predictions, strict=True)
    return np.array([(sum(a == b for a, b in zip(*pair, strict=True)), len(pair[0])) for pair in pairs], np.float64)


def _sentence_statistics(references: _TagLists, predictions: _TagLists) -> np.ndarray:
    pairs = zip(references, predictions, strict=True)
    return np.array([(float(list(a) == list(b)), 1.0) for a, b in pairs], np.float64)


_ACCURACY = Metric("token-accuracy", _accuracy_statistics, mean_score)
_SENTENCE_ACCURACY = Metric("sentence-accuracy", _sentence_statistics, mean_score)


def _of_spans(measure: Metric) -> Metric:
    def statistics(references: _TagLists, predictions: _TagLists) -> np.ndarray:
        found = span_metrics.spans_of_tags(references), span_metrics.spans_of_tags(predictions)
        return measure.statistics(*found)

    return Metric(measure.name + "|spans:conlleval", statistics, measure.score)


_SPAN_MEASURES = {
    "f1": _of_spans(span_metrics.F1),
    "precision": _of_spans(span_metrics.PRECISION),
    "recall": _of_spans(span_metrics.RECALL),
}
_MEASURES = {**_SPAN_MEASURES, "accuracy": _ACCURACY, "sentence_accuracy": _SENTENCE_ACCURACY}


def default_metric(tagging: TagSet) -> str:
    """The main score: F1 if tags encode spans, otherwise the accuracy over words."""
    return "accuracy" if tagging.files is None else "f1"


def build_metric(metric: str, tagging: TagSet) -> Metric:
    """A metric over the tags of sentences, as a function of sums over sentences."""
    known = _MEASURES if tagging.files is not None else {k: v for k, v in _MEASURES.items() if k not in _SPAN_MEASURES}
    if metric not in known:
        raise ConfigError(f"metric must be one of {', '.join(known)}, got {metric!r}. Choose one of these.")
    return known[metric]


def drop_unknown_gold(
    right: _TagLists, found: _TagLists, unknown: str | None
) -> tuple[list[list[str]], list[list[str]]]:
    """Gold and predicted tags without the words whose gold tag is not known."""
    if unknown is None:
        return [list(tags) for tags in right], [list(tags) for tags in found]
    pairs = [[(a, b) for a, b in zip(*two, strict=True) if a != unknown] for two in zip(right, found, strict=True)]
    kept = [some for some in pairs if some]
    return [[a for a, _ in some] for some in kept], [[b for _, b in some] for some in kept]


def compute_scores(tagging: TagSet, right: _TagLists, found: _TagLists) -> dict[str, float]:
    """Scores of predictions by name. Spans are scored in sentences whose tags are all known."""
    right = [tagging.mended(tags) for tags in right]
    words = drop_unknown_gold(right, found, tagging.unknown)
    if not words[0]:
        raise DataError("No word has a known tag, so there is nothing to score. Check --label-column.")
    scores = {}
    if tagging.files is not None:
        whole = _whole(right, found, tagging.unknown)
        scores = {name: float(measure(*whole)) if whole[0] else 0.0 for name, measure in _SPAN_MEASURES.items()}
    scores["accuracy"] = float(_ACCURACY(*words))
    scores["sentence_accuracy"] = float(_SENTENCE_ACCURACY(*words))
    return scores


def _whole(right: _TagLists, found: _TagLists, unknown: str | None) -> tuple[list[list[str]], list[list[str]]]:
    pairs = [(list(a), list(b)) for a, b in zip(right, found, strict=True) if unknown not in a]
    return [a for a, _ in pairs], [b for _, b in pairs]


@dataclass(frozen=True, eq=False)
class TaggedPredictions:
    """Gold and predicted tags of a file, and the counts of what was read."""

    right: list[tuple[str, ...]]
    found: list[list[str]]
    counts: str


def metric_signatures(tagging: TagSet, judged: TaggedPredictions) -> dict[str, str]:
    """The signature of each score: how it was computed."""
    names = _MEASURES if tagging.files is not None else ("accuracy", "sentence_accuracy")
    return {name: f"{_MEASURES[name].name}|n={len(judged.right)}" for name in names}


def report_lines(judged: TaggedPredictions, scores: dict[str, float], tagging: TagSet) -> list[str]:
    """The scores with their intervals, each kind of span or tag, and the confusions."""
    signatures = metric_signatures(tagging, judged)
    lines = [judged.counts]
    known = (
        {tag for name in tagging.names.names for tag in tagging.shown(["x"], [name])} if not tagging.lemmas else None
    )
    if known is not None and tagging.files is None:
        new = Counter(tag for tags in judged.right for tag in tags if tag not in known and tag != tagging.unknown)
        line = unseen_line(new, "this file", "words have a tag")
        lines += [line] if line else []
    right, found = drop_unknown_gold(judged.right, judged.found, tagging.unknown)
    if tagging.files is not None:
        lines += _new_kinds(judged, tagging)
        lines += _span_lines(judged, scores, tagging, signatures)
    sums = _ACCURACY.statistics(right, found).sum(0)
    interval = wilson_interval(int(sums[0]), int(sums[1]))
    lines.append(
        f"accuracy {scores['accuracy']:.4f} (95 % interval {interval.low:.4f} to {interval.high:.4f}, assuming "
        f"independent words)   {signatures['accuracy']}"
    )
    lines.append(f"sentence_accuracy {scores['sentence_accuracy']:.4f}   {signatures['sentence_accuracy']}")
    if tagging.files is None and not tagging.lemmas:
        lines += ["", *_tag_lines(right, found)]
    return lines


def _new_kinds(judged: TaggedPredictions, tagging: TagSet) -> list[str]:
    kinds = {name.partition("-")[2] for name in tagging.names.names}
    new = Counter(tag for tags in judged.right for tag in tags if not _is_of(kinds, tag))
    counts = {tag: n for tag, n in new.items() if tag != tagging.unknown}
    line = unseen_line(counts, "this file", "words have a tag")
    return [line] if line else []


def _is_of(kinds: set[str], tag: str) -> bool:
    """Whether a tag marks no span or a span of one of these kinds."""
    mark, dash, kind = tag.partition("-")
    return kind in kinds if dash else mark in _SPAN_MARKS


def _span_lines(
    judged: TaggedPredictions, scores: dict[str, float], tagging: TagSet, signatures: dict[str, str]
) -> list[str]:
    right, found = _whole(judged.right, judged.found, tagging.unknown)
    if not right:
        return ["no sentence has tags that are all known, so spans cannot be scored"]
    measure = _SPAN_MEASURES["f1"]
    interval = bootstrap_score_interval(measure.statistics(right, found), measure.score, np.random.default_rng(0))
    lines = [
        f"f1 {scores['f1']:.4f} (95 % interval {interval.low:.4f} to {interval.high:.4f}, sentences resampled)   "
        f"{signatures['f1']}",
        f"precision {scores['precision']:.4f}   recall {scores['recall']:.4f}",
    ]
    strict = tagging.files.scheme if tagging.files is not None else "iob2"
    both = (span_metrics.spans_of_tags(tags, "strict", strict) for tags in (right, found))
    exact = float(span_metrics.F1(*both))
    if exact != scores["f1"]:
        lines.append(
            f"f1 {exact:.4f} if tags that break {strict} count as no spans   span-f1|spans:strict|n={len(right)}"
        )
    spans = [span_metrics.spans_of_tags(tags) for tags in (right, found)]
    return [*lines, "", *span_metrics.span_report(*spans).lines(), ""]


def _tag_lines(right: _TagLists, found: _TagLists) -> list[str]:
    gold = [tag for tags in right for tag in tags]
    guess = [tag for tags in found for tag in tags]
    often = [tag for tag, _ in Counter(gold).most_common(_MOST_LABELS)]
    mistakes = confusion_table(gold, guess).mistakes(10)
    listed = [f"  {count:>5}  {a} taken for {b}" for a, b, count in mistakes]
    table = label_report(gold, guess, labels=sorted(often)).lines()
    return [*table, "", *(["the most frequent mistakes:", *listed] if listed else ["no mistakes"])]
