"""Words as evidence of no answer: features by hand, the regression by its optimality and on separable data."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from catena.tasks.read.answers import split_sentences
from catena.tasks.read.evidence import N_WORD_FEATURES, NoAnswerRegression, WordEvidence, fit_logistic

from .samples import encoding, example

TEXT = "Ada bought a green bicycle in Rome. Bob sold the bicycle in 1999."
ENCODING = encoding([TEXT, "a a a in in the"])


def rareness(word: str) -> float:
    counts = dict(zip(ENCODING.words.symbols, ENCODING.words.counts, strict=True))
    return math.log((sum(ENCODING.words.counts) + len(ENCODING.words)) / (counts.get(word, 0) + 1))


def test_words_that_are_missing_count_by_their_rareness() -> None:
    found = WordEvidence(ENCODING).question("Who bought the yellow bicycles in Paris?", TEXT)
    words = ["who", "bought", "the", "yellow", "bicycles", "in", "paris"]
    total = sum(map(rareness, words))
    missing = [rareness(word) for word in ("who", "yellow", "paris")]  # bicycles has the stem of bicycle
    left = [*missing, rareness("the")]  # the first sentence has bought, bicycle and in
    second = [*missing, rareness("bought")]
    expected = [7, total, math.log1p(11), 2, sum(missing), sum(missing) / total, max(missing)]
    expected += [sum(left), sum(left) / total, max(left), sum(second) / total]
    expected += [(sum(missing) + rareness("bicycles")) / total, 1, 1, 1, 0, 3]
    assert sorted((sum(left), sum(second))) == [sum(left), sum(second)]
    assert found[:N_WORD_FEATURES] == pytest.approx(expected)


def test_common_words_of_a_question_are_features() -> None:
    evidence = WordEvidence(ENCODING)
    both = [evidence.question(question, TEXT)[N_WORD_FEATURES:] for question in ("Who in the a?", "Who?")]
    assert [row.sum() for row in both] == [3, 0]


def test_sentence_of_the_answer_counts() -> None:
    evidence = WordEvidence(ENCODING)
    places = [TEXT.index(word) for word in ("Rome", "1999")]
    first, second = (evidence.answer("Who bought it?", TEXT, at, at + 4) for at in places)
    total = sum(map(rareness, ("who", "bought", "it")))
    assert first[0] == pytest.approx((rareness("who") + rareness("it")) / total)
    assert second == pytest.approx([1, first[0], rareness("bought") / total, 1])


def test_sentences_are_a_partition_without_blanks() -> None:
    text = "One. Two! Three?  "
    spans = split_sentences(text)
    assert [text[a:b].strip() for a, b in spans] == ["One.", "Two!", "Three?"]
    assert "".join(text[a:b] for a, b in spans).strip() == text.strip()
    assert split_sentences(" ") == []


def test_logistic_regression_is_where_the_gradient_vanishes() -> None:
    generator = np.random.default_rng(0)
    rows = np.hstack((generator.normal(3, 2, (60, 3)), np.full((60, 1), 5.0)))
    labels = rows[:, 0] + generator.normal(size=60) > 3
    weights = fit_logistic(rows, labels, penalty=2.0)
    deviation, mean = rows.std(0)[:3], rows.mean(0)[:3]
    own = torch.tensor(weights[:3] * deviation, requires_grad=True)
    bias = torch.tensor(weights[4] + weights[:3] @ mean, requires_grad=True)
    scores = torch.from_numpy((rows[:, :3] - mean) / deviation) @ own + bias
    target = torch.from_numpy(labels.astype(float))
    loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, target, reduction="sum") + own.square().sum()
    gradients = torch.autograd.grad(loss, (own, bias))
    assert weights[3] == 0
    assert max(float(g.abs().max()) for g in gradients) < 1e-6


def test_regression_learns_that_missing_words_mean_no_answer() -> None:
    evidence, regression = WordEvidence(ENCODING), NoAnswerRegression()
    questions = [("Who bought a bicycle?", "Ada"), ("Who sold the bicycle?", "Bob"), ("Who sold a boat?", "")] * 4
    examples = [example(TEXT, question, *[answer] * bool(answer)) for question, answer in questions]
    regression.fit_words(evidence, examples)
    none = np.array([not one.answers for one in examples])
    rows = np.stack([regression.features(evidence, one.question, TEXT, 0, 3, 0.0) for one in examples])
    regression.fit(rows, none)
    odds = [regression.log_odds(evidence, one.question, TEXT, 0, 3, 0.0) for one in examples]
    assert regression.fitted
    assert [x > 0 for x in odds] == none.tolist()


def test_regression_of_one_kind_of_questions_is_not_used() -> None:
    regression = NoAnswerRegression()
    regression.fit(np.ones((3, 7)), np.array([False, False, False]))
    assert not regression.fitted
