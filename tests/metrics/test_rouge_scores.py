"""ROUGE beside counts by hand and a plain recursion."""

from __future__ import annotations

import itertools
from functools import cache

import pytest

from catena.errors import DataError
from catena.metrics.rouge_scores import SUMMARY_METRICS, common_subsequence, rouge, split_words, summary_measure


def longest(a: str, b: str) -> int:
    """The longest common subsequence by its recursion."""

    @cache
    def at(i: int, j: int) -> int:
        if i == len(a) or j == len(b):
            return 0
        if a[i] == b[j]:
            return 1 + at(i + 1, j + 1)
        return max(at(i + 1, j), at(i, j + 1))

    return at(0, 0)


def test_common_subsequence_equals_the_recursion() -> None:
    strings = ["".join(s) for n in range(5) for s in itertools.product("ab", repeat=n)]
    for a, b in itertools.product(strings, repeat=2):
        assert common_subsequence(a, b) == longest(a, b)
    long = "the cat sat on the mat " * 4, "a cat on that mat sits " * 4
    assert common_subsequence(*long) == longest(*long)


@pytest.mark.parametrize(
    ("reference", "prediction", "scores"),
    [
        # Of 6 and 6 words 5 are shared; of 5 and 5 pairs 3; in order 5.
        ("The cat sat on the mat.", "the cat lay on the mat", (100 * 10 / 12, 100 * 6 / 10, 100 * 10 / 12)),
        # Of 3 and 5 words "the" is shared twice, though it stands four times on one side, and "dog" once.
        ("the the dog", "the dog the the the", (100 * 6 / 8, 100 * 4 / 6, 100 * 4 / 8)),
        ("police killed the gunman", "the gunman killed police", (100.0, 100 * 2 / 6, 50.0)),
        ("one", "one", (100.0, 0.0, 100.0)),
        ("", "one", (0.0, 0.0, 0.0)),
        ("...", "", (0.0, 0.0, 0.0)),
    ],
)
def test_scores_are_those_counted_by_hand(reference: str, prediction: str, scores: tuple[float, ...]) -> None:
    for name, score in zip(SUMMARY_METRICS, scores, strict=True):
        assert rouge(name, reference, prediction) == pytest.approx(score), name


def test_words_are_letters_and_digits_of_any_script() -> None:
    assert split_words("Don't stop: 3.5 Ångström_units!") == ["don", "t", "stop", "3", "5", "ångström", "units"]
    assert split_words("我爱ABC") == ["我", "爱", "abc"]
    assert split_words("हिन्दी भाषा") == ["हिन्दी", "भाषा"], "marks stay with their letters"


def test_a_corpus_scores_the_mean_and_says_how() -> None:
    found = summary_measure("rouge_l")(["police killed the gunman", "one"], ["the gunman killed police", "one"])
    assert found == pytest.approx(75.0)
    assert found.signature == "ROUGE-L|case:lower|tokens:unicode|stem:no|score:F1|n=2"
    with pytest.raises(DataError, match="Unknown metric of summaries 'rouge': did you mean"):
        summary_measure("rouge")
    with pytest.raises(DataError, match="ROUGE needs at least one example"):
        summary_measure("rouge_1")([], [])
