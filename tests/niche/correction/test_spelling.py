"""Correction of texts, compared with all texts of known words within two edits of each observed word."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest

from catena.lm.ngram.model import NgramModel
from catena.niche.correction.candidates import ObservedToken, UnknownWords, WordCandidates
from catena.niche.correction.config import SpellingConfig
from catena.niche.correction.error_model import ErrorModel
from catena.niche.correction.spelling import SpellingCorrector, build_spelling_model
from tests.oracle.spelling import edit_distance

CORPUS = ["the cat sat on the mat", "a cat ate the rat", "the rat sat", "a bat sat on a cat", "the man ate the hat"]
CONFIG = SpellingConfig(real_words=0.5, new_words=0.3, lm_weight=0.9, beam_size=500)
UNKNOWN = UnknownWords(1, lambda word: -1.5 * len(word), -8.0)


@cache
def model() -> NgramModel:
    return NgramModel.train(CORPUS, order=3, estimator="witten-bell")


def words() -> tuple[str, ...]:
    return tuple(model().vocabulary.symbols[4:])


@cache
def errors() -> ErrorModel:
    return ErrorModel.from_rates(words=words())


def corrector(stepper: NgramModel | None = None) -> SpellingCorrector:
    stepper = stepper or model()

    def encode(token: ObservedToken, text: str) -> tuple[int, ...]:
        return tuple(stepper.vocabulary.ids(text.split(" ")))

    return SpellingCorrector(stepper, WordCandidates(words(), encode, errors(), UNKNOWN, CONFIG), stepper.order - 1)


def tokens(text: str) -> list[ObservedToken]:
    return [ObservedToken(word, tuple(model().vocabulary.ids([word])), " ") for word in text.split()]


def readings(word: str) -> dict[str, float]:
    """What a word may have been meant to be, one word each, by its definition."""
    known = word in words()
    most = 1 if known or len(word) <= 3 else 2
    factor = math.log(CONFIG.real_words) if known else 0.0
    found = {
        other: errors().log_weights(word, [other])[0] + factor
        for other in words()
        if other != word and edit_distance(word, other) <= most and len(word) > 1
    }
    return found | {word: 0.0 if known or len(word) == 1 else math.log(CONFIG.new_words) + UNKNOWN.spelling(word)}


def brute_force(text: str) -> dict[str, float]:
    """Every corrected text with its score."""
    scored = {}
    for chosen in itertools.product(*(readings(word).items() for word in text.split())):
        sentence = " ".join(word for word, _ in chosen)
        log_probs = model().token_scores(sentence)
        score = sum(CONFIG.lm_weight * max(p, -8.0 if word == "<unk>" else -60.0) for word, p in log_probs)
        scored[sentence] = score + sum(weight for _, weight in chosen)
    return scored


@pytest.mark.parametrize(
    "text", ["teh cat", "the czt sta on a hat", "a bat ate", "zzzz sat", "teh ract satt", "hte hat"]
)
def test_correction_is_the_best_of_all_texts(text: str) -> None:
    scored = brute_force(text)
    assert len(scored) > 5
    best = max(scored, key=scored.__getitem__)
    found = corrector().correct(tokens(text))
    words = text.split()
    for change in found.changes:
        words[change.start] = change.text
    assert " ".join(words) == best
    total = math.log(math.fsum(math.exp(score) for score in scored.values()))
    assert found.probability == pytest.approx(math.exp(scored[best] - total), rel=1e-3)


def test_alternatives_have_their_probabilities_given_the_rest() -> None:
    text = "teh cat zat on a mzt"
    found = corrector().correct(tokens(text), n_alternatives=3)
    best = text.split()
    for change in found.changes:
        best[change.start] = change.text
    scored = brute_force(text)
    assert [change.start for change in found.changes] == [0, 2, 5]
    for change in found.changes:
        here = {s.split()[change.start]: p for s, p in scored.items() if replaced(s, best, change.start) == best}
        total = math.log(math.fsum(math.exp(score) for score in here.values()))
        ranked = sorted(((math.exp(p - total), word) for word, p in here.items()), reverse=True)
        assert [word for word, _ in change.alternatives] == [word for _, word in ranked[1:4]]
        expected = [p for p, _ in ranked[1 : 1 + len(change.alternatives)]]
        assert [p for _, p in change.alternatives] == pytest.approx(expected, rel=1e-3, abs=1e-9)


def replaced(sentence: str, best: list[str], position: int) -> list[str]:
    words = sentence.split()
    words[position] = best[position]
    return words


def test_alternatives_are_not_computed_unless_requested() -> None:
    (change,) = corrector().correct(tokens("teh cat sat")).changes
    assert (change.start, change.end, change.text, change.alternatives) == (0, 1, "the", ())


def test_alternatives_of_joined_words_include_the_words_as_they_are() -> None:
    words = ["the", "man", "sat", "on", "ther", "at"]
    changes = corrector().correct(tokens(" ".join(words)), n_alternatives=50).changes
    assert all(change.text != " ".join(words[change.start : change.end]) for change in changes)
    assert all(sum(p for _, p in change.alternatives) < 1 for change in changes)


def test_text_without_errors_is_unchanged() -> None:
    for sentence in CORPUS:
        found = corrector().correct(tokens(sentence), n_alternatives=2)
        assert found.changes == ()
        assert 0.5 < found.probability <= 1


def test_spelling_model_is_a_distribution_over_words() -> None:
    log_prob = build_spelling_model(["ab", "ba", "abab"])
    letters = np.array([log_prob("".join(word)) for n in range(9) for word in itertools.product("ab?", repeat=n)])
    assert 0.8 < np.exp(letters).sum() <= 1 + 1e-6  # "?" is any other letter
    assert log_prob("abab") > log_prob("bbbb")
