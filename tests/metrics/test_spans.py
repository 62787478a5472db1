"""Spans as conlleval and as seqeval's strict mode read them: by their definitions and by numbers they printed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from catena.errors import DataError
from catena.metrics.intervals import bootstrap_score_interval
from catena.metrics.spans import (
    F1,
    PRECISION,
    RECALL,
    conll_spans,
    span_f1,
    span_report,
    span_statistics,
    spans_of_tags,
    strict_spans,
)


def conlleval(gold: list[list[str]], found: list[list[str]]) -> tuple[int, int, int]:
    """right, found and gold by the tables of conlleval, word by word, with one O behind each sentence."""

    def ends(last: str, tag: str, last_kind: str, kind: str) -> bool:
        pairs = {("B", "B"), ("B", "O"), ("I", "B"), ("I", "O"), ("E", "E"), ("E", "I"), ("E", "O")}
        return (last, tag) in pairs or (last != "O" and last_kind != kind)

    def starts(last: str, tag: str, last_kind: str, kind: str) -> bool:
        pairs = {("B", "B"), ("I", "B"), ("O", "B"), ("O", "I"), ("E", "E"), ("E", "I"), ("O", "E")}
        return (last, tag) in pairs or (tag != "O" and last_kind != kind)

    right = n_found = n_gold = 0
    in_right = False
    last = last_guess = ("O", "")
    for ours, theirs in zip(gold, found, strict=True):
        for a, b in itertools.chain(zip(ours, theirs, strict=True), [("O", "O")]):
            here, guess = ((tag[0], tag[2:]) for tag in (a, b))
            gold_ends = ends(last[0], here[0], last[1], here[1])
            guess_ends = ends(last_guess[0], guess[0], last_guess[1], guess[1])
            if in_right:
                if gold_ends and guess_ends and last_guess[1] == last[1]:
                    in_right = False
                    right += 1
                elif gold_ends != guess_ends or guess[1] != here[1]:
                    in_right = False
            gold_starts = starts(last[0], here[0], last[1], here[1])
            guess_starts = starts(last_guess[0], guess[0], last_guess[1], guess[1])
            if gold_starts and guess_starts and guess[1] == here[1]:
                in_right = True
            n_gold += gold_starts
            n_found += guess_starts
            last, last_guess = here, guess
    return right, n_found, n_gold


def random_sentences(letters: str, n: int, seed: int) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    tags = ["O", *(f"{letter}-{kind}" for letter in letters for kind in ("A", "B"))]
    return [list(rng.choice(tags, size=rng.integers(1, 9))) for _ in range(n)]


def test_all_short_sentences_are_counted_as_conlleval_counts_them() -> None:
    tags = ["O", "B-A", "I-A", "B-B", "I-B"]
    listed = [list(one) for n in (1, 2, 3) for one in itertools.product(tags, repeat=n)]
    for gold in listed[::7]:
        others = [one for one in listed if len(one) == len(gold)]
        assert gold in others
        for found in others:
            row = span_statistics([conll_spans(gold)], [conll_spans(found)])[0]
            assert tuple(row) == conlleval([gold], [found])


def test_random_corpora_are_counted_as_conlleval_counts_them() -> None:
    gold = random_sentences("BI", 400, 1)
    rng = np.random.default_rng(2)
    found = [[t if rng.random() < 0.7 else str(rng.choice(["O", "B-A", "I-A", "I-B"])) for t in one] for one in gold]
    sums = span_statistics(spans_of_tags(gold), spans_of_tags(found)).sum(0)
    assert tuple(sums) == conlleval(gold, found)


# What seqeval 1.2.2 finds, mode="strict", for the scheme; and, last, in its default mode.
SEQEVAL = [
    ("iob2", "B-A I-A O I-A", [(0, 2, "A")], [(0, 2, "A"), (3, 4, "A")]),
    ("iob2", "B-A I-B I-B O", [(0, 1, "A")], [(0, 1, "A"), (1, 3, "B")]),
    ("iob2", "I-A B-A B-A", [(1, 2, "A"), (2, 3, "A")], [(0, 1, "A"), (1, 2, "A"), (2, 3, "A")]),
    ("iob1", "I-A I-A B-A O B-B", [(0, 2, "A"), (2, 3, "A")], [(0, 2, "A"), (2, 3, "A"), (4, 5, "B")]),
    ("bilou", "B-A I-A E-A S-B B-A O", [(0, 3, "A"), (3, 4, "B")], [(0, 3, "A"), (3, 4, "B"), (4, 5, "A")]),
    ("bilou", "B-A I-B E-A E-A", [], [(0, 1, "A"), (1, 2, "B"), (2, 3, "A"), (3, 4, "A")]),
    ("bilou", "S-A S-A I-A E-A", [(0, 1, "A"), (1, 2, "A")], [(0, 1, "A"), (1, 2, "A"), (2, 4, "A")]),
]


@pytest.mark.parametrize(("scheme", "tags", "strict", "default"), SEQEVAL)
def test_fixtures_are_read_as_seqeval_reads_them(
    scheme: str, tags: str, strict: list[tuple[int, int, str]], default: list[tuple[int, int, str]]
) -> None:
    assert strict_spans(tags.split(), scheme) == frozenset(strict)  # type: ignore[arg-type]
    assert conll_spans(tags.split()) == frozenset(default)


@pytest.mark.parametrize(("scheme", "letters"), [("iob1", "BI"), ("iob2", "BI"), ("bilou", "BIES")])
def test_both_readings_equal_seqeval(scheme: str, letters: str) -> None:
    labeling = pytest.importorskip("seqeval.scheme", reason="seqeval is not installed")
    get_entities = pytest.importorskip("seqeval.metrics.sequence_labeling").get_entities
    theirs = {"iob1": labeling.IOB1, "iob2": labeling.IOB2, "bilou": labeling.IOBES}[scheme]
    sentences = random_sentences(letters, 2000, 5)
    assert len(sentences) == 2000
    for tags in sentences:
        entities = labeling.Entities([tags], theirs).entities[0]
        assert strict_spans(tags, scheme) == {(e.start, e.end, e.tag) for e in entities}  # type: ignore[arg-type]
        assert conll_spans(tags) == {(a, b + 1, kind) for kind, a, b in get_entities(tags)}


def test_scores_of_kinds_and_of_all_together() -> None:
    gold = spans_of_tags([["B-A", "I-A", "O", "B-B"], ["B-A", "O", "O", "O"]])
    found = spans_of_tags([["B-A", "I-A", "O", "B-A"], ["B-A", "I-A", "B-B", "O"]])
    report = span_report(gold, found)
    assert [(k.kind, k.right, k.found, k.gold) for k in report.kinds] == [("A", 1, 3, 2), ("B", 0, 1, 1)]
    assert (report.overall.precision, report.overall.recall) == (1 / 4, 1 / 3)
    assert report.overall.f1 == pytest.approx(2 / 7) == float(span_f1(gold, found))
    assert float(PRECISION(gold, found)) == 1 / 4
    assert float(RECALL(gold, found)) == pytest.approx(1 / 3)
    assert span_f1(gold, found).signature == "span-f1|n=2"
    assert report.lines()[1].split() == ["A", "0.3333", "0.5000", "0.4000", "3", "2"]
    assert report.lines()[-1].split()[0] == "all"


def test_no_span_at_all_scores_nothing() -> None:
    assert float(span_f1([frozenset()], [frozenset()])) == 0.0
    assert span_report([frozenset()], [frozenset()]).overall.f1 == 0.0
    with pytest.raises(DataError, match="2 references and 1 predictions"):
        span_report([frozenset(), frozenset()], [frozenset()])


def test_an_interval_holds_the_score() -> None:
    gold = spans_of_tags(random_sentences("BI", 50, 7))
    found = spans_of_tags(random_sentences("BI", 50, 8))
    interval = bootstrap_score_interval(span_statistics(gold, found[:]), F1.score, np.random.default_rng(0))
    assert interval.value == pytest.approx(float(F1(gold, found)))
    assert interval.low < interval.value < interval.high
