"""BLEU, chrF and TER beside sacrebleu's own scores, and what resampling makes of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from catena.errors import DataError, MissingExtraError
from catena.metrics.intervals import bootstrap_score_interval
from catena.metrics.significance import paired_bootstrap
from catena.metrics.translation import TRANSLATION_METRICS, caption_measures, translation_measure, words_only

sacrebleu = pytest.importorskip("sacrebleu")

LINE = "Ein Mann läuft , die Frau sieht einen Hund . Das Kind und der Hund spielen im Park !"
WORDS = LINE.split()


def texts(n: int, noise: float, seed: int = 0) -> tuple[list[str], list[str]]:
    """References, and the same with some words replaced, left out or written large."""
    rng = np.random.default_rng(seed)
    references, predictions = [], []
    for _ in range(n):
        words = [WORDS[k] for k in rng.integers(0, len(WORDS), rng.integers(1, 12))]
        changed = [
            word if rng.random() > noise else [WORDS[rng.integers(len(WORDS))], "", word.upper()][rng.integers(3)]
            for word in words
        ]
        references.append(" ".join(words))
        predictions.append(" ".join(word for word in changed if word))
    return references, predictions


def theirs(name: str, predictions: list[str], references: list[str]) -> float:
    """The score by sacrebleu's public functions."""
    if name.startswith("bleu"):
        metric: Any = sacrebleu.BLEU(lowercase=name.endswith("lowercase"))
    else:
        metric = sacrebleu.CHRF() if name == "chrf" else sacrebleu.TER()
    return float(metric.corpus_score(predictions, [references]).score)


@pytest.mark.parametrize("name", TRANSLATION_METRICS)
@pytest.mark.parametrize(("n", "noise"), [(1, 0.3), (2, 1.0), (40, 0.0), (40, 0.2), (40, 0.9)])
def test_scores_are_sacrebleus(name: str, n: int, noise: float) -> None:
    for seed in range(4):
        references, predictions = texts(n, noise, seed)
        assert float(translation_measure(name)(references, predictions)) == pytest.approx(
            theirs(name, predictions, references), abs=1e-9
        )


@pytest.mark.parametrize("name", TRANSLATION_METRICS)
def test_texts_that_are_empty_or_share_nothing_have_a_score(name: str) -> None:
    for predictions, references in (
        (["", "x"], ["a b c d", "y"]),
        ([""], [""]),
        (["a b c"], [""]),
        (["a b"], ["a b"]),
        (["a b c d e"], ["v w x y z"]),  # long enough for all orders, and no match
        (["abcdefgh"], ["ab"]),  # orders of characters that one side alone has
        (["ab"], ["abcdefgh"]),
    ):
        found = float(translation_measure(name)(references, predictions))
        assert found == pytest.approx(theirs(name, predictions, references), abs=1e-9)


def test_signatures_are_sacrebleus_with_the_number_of_sentences() -> None:
    references, predictions = texts(3, 0.1)
    signature = translation_measure("bleu_lowercase", "char")(references, predictions).signature
    assert signature == f"BLEU|nrefs:1|case:lc|eff:no|tok:char|smooth:exp|version:{sacrebleu.__version__}|n=3"
    assert translation_measure("chrf")(references, predictions).signature.startswith("chrF2|nrefs:1|case:mixed|")
    assert translation_measure("ter")(references, predictions).signature.startswith("TER|nrefs:1|case:lc|")


def test_chinese_is_tokenized_as_configured() -> None:
    reference, prediction = ["我爱自然语言处理"], ["我爱语言处理的人"]
    assert float(translation_measure("bleu")(reference, prediction)) == 0.0
    assert float(translation_measure("bleu", "zh")(reference, prediction)) > 20


@pytest.mark.parametrize("name", TRANSLATION_METRICS)
def test_score_of_many_resamples_equals_the_score_of_each(name: str) -> None:
    references, predictions = texts(30, 0.4)
    measure = translation_measure(name)
    rows = measure.statistics(references, predictions)
    rng = np.random.default_rng(1)
    drawn = rng.integers(0, 30, (6, 30))
    together = measure.score(rows[drawn].sum(axis=1))
    assert len(drawn) > 0
    for ids, score in zip(drawn, together, strict=True):
        listed = [predictions[i] for i in ids], [references[i] for i in ids]
        assert float(score) == pytest.approx(theirs(name, *listed), abs=1e-9)


def test_the_interval_is_around_the_score_and_a_clear_winner_is_found() -> None:
    references, good = texts(120, 0.1)
    _, bad = texts(120, 0.6)
    measure = translation_measure("bleu")
    first, second = (measure.statistics(references, given) for given in (good, bad))
    interval = bootstrap_score_interval(first, measure.score, np.random.default_rng(0))
    assert interval.low < interval.value < interval.high
    found = paired_bootstrap(first, second, measure.score, np.random.default_rng(0), metric=measure.name)
    assert found.difference > 10
    assert found.p_value < 0.001
    assert math.isclose(found.first, theirs("bleu", good, references), abs_tol=1e-9)
    assert "BLEU|nrefs:1" in found.signature


def test_invalid_input_raises_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="Unknown metric of translations 'blue': did you mean 'bleu'"):
        translation_measure("blue")
    with pytest.raises(DataError, match="BLEU needs one prediction for each reference"):
        translation_measure("bleu")(["a"], ["a", "b"])
    monkeypatch.setitem(__import__("sys").modules, "sacrebleu.metrics", None)
    with pytest.raises(MissingExtraError, match=r"scoring translations by bleu needs .* pip install sacrebleu"):
        translation_measure("bleu")


# --- several references -----------------------------------------------------------------------------------------------


CAPTIONS = ["a dog runs in the snow", "two men play football", "a boy"]
REFERENCES = [
    ("A dog is running in snow .", "the dog runs through the snow", "a brown dog"),
    ("Two men are playing football .",),
    ("a small boy", "a boy jumps"),
]


def test_several_references_equal_sacrebleu() -> None:
    metrics = pytest.importorskip("sacrebleu.metrics")
    streams = [[own[k] if k < len(own) else None for own in REFERENCES] for k in range(3)]
    for name, peer in (("bleu", metrics.BLEU(force=True)), ("chrf", metrics.CHRF())):
        found = translation_measure(name)(REFERENCES, CAPTIONS)
        assert float(found) == pytest.approx(peer.corpus_score(CAPTIONS, streams).score, abs=1e-9)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_caption_bleu_of_each_order_equals_sacrebleu_on_words(order: int) -> None:
    metrics = pytest.importorskip("sacrebleu.metrics")
    peer = metrics.BLEU(force=True, tokenize="none", max_ngram_order=order)
    streams = [[words_only(own[k]) if k < len(own) else None for own in REFERENCES] for k in range(3)]
    found = caption_measures()[f"bleu_{order}"](REFERENCES, CAPTIONS)
    assert float(found) == pytest.approx(peer.corpus_score(CAPTIONS, streams).score, abs=1e-9)
    assert found.signature.startswith(f"BLEU-{order}|nrefs:var|case:lc|eff:no|tok:words|")


def test_caption_bleu_by_hand() -> None:
    """Unigrams clipped by the largest count in any reference; the length of the closest reference."""
    found = caption_measures()["bleu_1"]([("the cat sat", "a cat sat on the mat today")], ["the the cat ran"])
    assert float(found) == pytest.approx(100 * 2 / 4)
    short = caption_measures()["bleu_1"]([("the cat sat down", "a cat sat on the mat today")], ["the cat"])
    assert float(short) == pytest.approx(100 * math.exp(1 - 4 / 2))


def test_words_only_drops_case_and_punctuation() -> None:
    assert words_only("Two dogs, running - fast .") == "two dogs running fast"
