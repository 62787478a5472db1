"""Phrases against plain counting in Python."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from catena.vectors.config import PhraseConfig, WordConfig
from catena.vectors.corpus import corpus_of_sentences
from tests.vectors.test_corpus import written

ALL = WordConfig(min_count=1)
SENTENCES = st.lists(st.lists(st.sampled_from("abcd"), max_size=9), min_size=1, max_size=9)


def joined(sentences: list[list[str]], settings: PhraseConfig) -> list[list[str]]:
    for _ in range(settings.passes):
        counts = Counter(word for sentence in sentences for word in sentence)
        pairs = Counter(pair for sentence in sentences for pair in pairwise(sentence))
        n = counts.total()

        def score(pair: tuple[str, str], counts: Counter = counts, pairs: Counter = pairs, n: int = n) -> float:
            a, b = counts[pair[0]], counts[pair[1]]
            if settings.score == "ratio":
                return (pairs[pair] - settings.min_pairs) * n / (a * b)
            return math.log((pairs[pair] / n) / ((a / n) * (b / n))) / -math.log(pairs[pair] / n)

        chosen = {pair for pair in pairs if pairs[pair] >= settings.min_pairs and score(pair) > settings.threshold}
        sentences = [merged(sentence, chosen) for sentence in sentences]
    return sentences


def merged(sentence: list[str], chosen: set[tuple[str, str]]) -> list[str]:
    found, i = [], 0
    while i < len(sentence):
        if tuple(sentence[i : i + 2]) in chosen:
            found.append("_".join(sentence[i : i + 2]))
            i += 2
        else:
            found.append(sentence[i])
            i += 1
    return found


@given(
    SENTENCES,
    st.sampled_from(["ratio", "npmi"]),
    st.sampled_from([-0.3, 0.1, 0.4]),
    st.integers(1, 2),
    st.integers(1, 3),
)
def test_phrases_equal_plain_counting(
    sentences: list[list[str]], score: str, threshold: float, passes: int, least: int
) -> None:
    settings = PhraseConfig(passes=passes, score=score, threshold=threshold, min_pairs=least)
    wanted = joined(sentences, settings)
    if len({word for sentence in wanted for word in sentence}) < 2:
        return
    corpus = corpus_of_sentences(sentences, ALL, settings)
    assert written(corpus) == wanted
    assert dict(zip(corpus.words, corpus.words.counts.tolist(), strict=True)) == Counter(w for s in wanted for w in s)


def test_two_passes_join_three_words() -> None:
    text = [[word, "new", "york", "times", *"abcdef"[i % 6 :]] for i, word in enumerate("abcdefabcdefabcdef")]
    settings = PhraseConfig(passes=2, threshold=2.5, min_pairs=5)
    corpus = corpus_of_sentences(text, ALL, settings)
    assert "new_york_times" in corpus.words
    assert corpus.notes[0].endswith("phrases were joined")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"score": "npmi", "threshold": 10.0}, "must be below 1 for phrases.score = 'npmi', got 10"),
        ({"joint": " "}, "phrases.joint must not contain a blank, got ' '"),
    ],
)
def test_invalid_config_raises_error(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        PhraseConfig(**values)
