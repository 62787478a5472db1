"""Answers: one softmax over all windows, n best texts, no answer, and offsets in characters."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.metrics.reading import normalize_answer
from catena.tasks.read.answers import AnswerFinder, ReadingOptions, WindowLogits, find_sentence, span_distribution
from catena.tasks.read.data import ReadingTexts
from catena.tasks.read.spans import score_spans
from tests.tasks.read.samples import TEXTS, encoding, model

ENCODING = encoding()
texts = st.text(alphabet="ab .,$-'’s\n\u00a0\u0301é𝔸👩🏽‍🚀東カー1", max_size=30).map(lambda text: text + "𝔸")


def finder(seed: int = 1, no_answer: str = "none", **options: object) -> AnswerFinder:
    torch.manual_seed(seed)
    return AnswerFinder(model(ENCODING, no_answer=no_answer).double(), ENCODING, ReadingOptions(**options))


@settings(max_examples=30)
@given(st.lists(texts, min_size=1, max_size=3), st.integers(1, 3))
def test_text_between_the_offsets_is_the_answer(given_texts: list[str], window: int) -> None:
    found = finder(max_answer=2, window=window + 1, stride=window, n_best=4).find("Who ?", given_texts)
    assert found.answers
    for answer in found.answers:
        assert given_texts[answer.source][answer.start : answer.end] == answer.text
        assert answer.text == answer.text.strip()
    assert found.text == found.answers[0].text


def test_answers_equal_enumeration_of_all_texts() -> None:
    """With whole texts as windows: joint probabilities, distinct texts in order, sums over equal texts."""
    own = finder(max_answer=2, n_best=5)
    given_texts = ["Ada met the Ada", "ada in Łódź", "a b"]
    encoded = ReadingTexts(ENCODING, given_texts, ["Who met ?"])
    logits = own.read(encoded, [(0, [0, 1, 2])])[0]
    spans = []
    for w in logits:
        scores = score_spans(w.start[None], w.end[None], 2)[0]
        for i in range(len(w.start)):
            for k in range(2):
                if i + k < len(w.start):
                    spans.append((float(scores[i, k]), encoded.slice(w.source, i, i + k), w.source))
    z = sum(math.exp(score) for score, *_ in spans)
    groups: dict[str, list[float]] = {}
    for score, text, _ in sorted(spans, reverse=True):
        groups.setdefault(normalize_answer(text) or text, []).append(math.exp(score) / z)
    found = own.choose(encoded, logits)
    names = [normalize_answer(a.text) or a.text for a in found.answers]
    assert names == list(groups)[:5]
    assert [a.probability for a in found.answers] == pytest.approx([g[0] for g in list(groups.values())[:5]])
    assert [a.text_probability for a in found.answers] == pytest.approx([sum(g) for g in list(groups.values())[:5]])
    assert sum(sum(g) for g in groups.values()) == pytest.approx(1)


def test_n_best_examines_as_many_spans_as_needed() -> None:
    """Many spans with the same text come first."""
    own = finder(max_answer=1, n_best=2, window=200, stride=200)
    text = " ".join(["b"] * 150 + ["a"])
    encoded = ReadingTexts(ENCODING, [text], ["x"])
    (logits,) = own.read(encoded, [(0, [0])])[0]
    start = torch.zeros_like(logits.start)
    start[-1] = -10
    low = WindowLogits(0, logits.window, start, torch.zeros_like(start), -math.inf)
    assert [a.text for a in own.choose(encoded, [low]).answers] == ["b", "a"]


def test_probabilities_of_windows_are_comparable() -> None:
    """A window of low logits does not get an answer of high probability."""
    window = ReadingTexts(ENCODING, ["a b", "c d"], ["x"]).windows(0, 400, 200, 17)[0]
    high, low = torch.tensor([5.0, 5.0]), torch.tensor([-5.0, -20.0])
    logits = [WindowLogits(0, window, high, high, -math.inf), WindowLogits(1, window, low, low, -math.inf)]
    distribution = span_distribution(logits, 2)
    best = {span.window: distribution.probability(span.score) for span in reversed(distribution.top(10))}
    assert best[1] < 1e-6
    assert sum(distribution.probability(s.score) for s in distribution.top(10)) == pytest.approx(1)


@pytest.mark.parametrize("no_answer", ["none", "pooled"])
def test_find_best_equals_find(no_answer: str) -> None:
    own = finder(no_answer=no_answer, max_answer=3, window=4, stride=2)
    given_texts = [*TEXTS, "one two three four five six seven eight nine"]
    questions = ["Who met Ada ?", "cost", "b"]
    encoded = ReadingTexts(ENCODING, given_texts, questions)
    pairs = [(0, [0, 4]), (1, [1, 2, 3]), (2, [2])]
    best = own.find_best(encoded, pairs)
    for (question, sources), answer in zip(pairs, best, strict=True):
        found = own.find(questions[question], [given_texts[i] for i in sources])
        assert answer.text == found.answers[0].text
        assert answer.score == pytest.approx(found.answers[0].score)
        assert answer.no_answer_margin == pytest.approx(found.no_answer_margin)


def test_order_of_texts_does_not_matter() -> None:
    own = finder(max_answer=3, n_best=3)
    one, other = own.find("Who ?", list(TEXTS)), own.find("Who ?", list(TEXTS[::-1]))
    assert [a.text for a in one.answers] == [a.text for a in other.answers]
    assert [a.probability for a in one.answers] == pytest.approx([a.probability for a in other.answers])
    assert [a.source for a in one.answers] == [3 - a.source for a in other.answers]


def test_long_text_in_windows_has_every_span_once() -> None:
    own = finder(max_answer=2, window=5, stride=3, n_best=1000)
    words = [f"w{i}" for i in range(23)]
    found = own.find("Who ?", [" ".join(words)])
    assert sum(a.probability for a in found.answers) == pytest.approx(1)
    assert len(found.answers) == 23 + 22


def test_biases_move_probability_between_texts() -> None:
    own = finder(max_answer=2)
    plain = own.find("Who ?", ["a b", "c d"])
    for source in (0, 1):
        moved = own.find("Who ?", ["a b", "c d"], [50.0 * (source == 0), 50.0 * (source == 1)])
        assert moved.answers[0].source == source
    same = own.find("Who ?", ["a b", "c d"], [7.0, 7.0])
    assert same.answers[0].probability == pytest.approx(plain.answers[0].probability)


def test_no_answer_by_threshold() -> None:
    own = finder(no_answer="bias", max_answer=2)
    margin = own.find("Who ?", ["a b"]).no_answer_margin
    for threshold, has_answer in ((margin + 0.1, True), (margin - 0.1, False)):
        found = finder(no_answer="bias", max_answer=2, no_answer_threshold=threshold).find("Who ?", ["a b"])
        assert found.has_answer == has_answer
        assert bool(found.text) == has_answer
        assert found.answers
    total = found.no_answer_probability
    many = finder(no_answer="bias", max_answer=2, n_best=100).find("Who ?", ["a b"])
    assert total + sum(a.text_probability for a in many.answers) == pytest.approx(1)
    assert finder().find("Who ?", ["a"]).no_answer_probability == 0


def test_scale_is_an_inverse_temperature() -> None:
    own = finder(max_answer=1, n_best=2)
    encoded = ReadingTexts(ENCODING, ["a b"], ["x"])
    logits = own.read(encoded, [(0, [0])])[0]
    first, second = own.choose(encoded, logits).answers
    sharp = own.choose(encoded, logits, scale=3.0).answers
    assert sharp[0].probability / sharp[1].probability == pytest.approx((first.probability / second.probability) ** 3)
    own.options = ReadingOptions(max_answer=1, n_best=2, scale=3.0)
    assert own.choose(encoded, logits).answers == sharp


def test_attention_has_a_row_for_each_token() -> None:
    found = finder().attend("Who met ?", TEXTS[0])
    assert found.text == ["Ada", "met", "Zoë", "in", "Łódź", "."]
    assert found.question == ["Who", "met", "?"]
    assert found.to_question.sum(1) == pytest.approx([1.0] * 6)
    assert found.to_text.sum() == pytest.approx(1)


def test_blank_texts_have_no_answer() -> None:
    found = finder().find("Who ?", [" ", ""])
    assert (found.answers, found.text, found.has_answer) == ((), "", False)


@pytest.mark.parametrize(
    ("text", "answer", "sentence"),
    [
        ("One is red. Two is blue! Three?", "blue", "Two is blue!"),
        ("It cost 3.14 by 1.5 km. Yes.", "3.14", "It cost 3.14 by 1.5 km."),
        ("He said “no.” Then he left.", "left", "Then he left."),
        ("東京です。京都です。", "京都", "京都です。"),
        ("  no end here ", "end", "no end here"),
        ("A b. C d.", "b. C", "A b. C d."),
    ],
)
def test_find_sentence(text: str, answer: str, sentence: str) -> None:
    start = text.index(answer)
    first, last = find_sentence(text, start, start + len(answer))
    assert text[first:last] == sentence
