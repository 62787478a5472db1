"""Edit scripts of lemmas restore every lemma, and the same change has the same script. Lemmas of train."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena import config as configs
from catena.errors import CheckpointError
from catena.tasks.runs import load_task, train_run
from catena.tasks.tag.base import TagTask
from catena.tasks.tag.config import TagConfig
from catena.tasks.tag.distribution import ChainDistribution
from catena.tasks.tag.lemmas import LemmaLexicon, apply_script, edit_script
from catena.training.report import SilentReporter
from tests.tasks.tag.helpers import TINY, write

TEXT = st.text(st.sampled_from("abcABC|+-=\\ßéП"), max_size=8)


@given(TEXT, TEXT)
def test_script_of_every_pair_restores_the_lemma(word: str, lemma: str) -> None:
    assert apply_script(edit_script(word, lemma), word) == lemma


@pytest.mark.parametrize(
    ("words", "script"),
    [
        ([("walked", "walk"), ("Talked", "talk"), ("WANTED", "want")], "low|-0+|-2+"),
        ([("Dogs", "dog"), ("CATS", "cat")], "low|-0+|-1+"),
        ([("cities", "city"), ("Ponies", "pony")], "low|-0+|-3+y"),
        ([("gelaufen", "laufen"), ("Gegangen", "gangen")], "low|-2+|-0+"),
        ([("The", "the"), ("OF", "of"), ("in", "in"), ("1,5", "1,5")], "low|-0+|-0+"),
        ([("paris", "Paris"), ("Berlin", "Berlin"), ("BONN", "Bonn")], "title|-0+|-0+"),
        ([("USA", "USA"), ("nato", "NATO")], "up|-0+|-0+"),
        ([("iPhones", "iPhone"), ("McCoys", "McCoy")], "same|-0+|-1+"),
        ([("is", "be")], "=be"),
    ],
)
def test_words_with_the_same_change_have_the_same_script(words: list[tuple[str, str]], script: str) -> None:
    for word, lemma in words:
        assert edit_script(word, lemma) == script


def test_script_that_does_not_fit_keeps_the_word() -> None:
    assert apply_script("same|-2+|-3+y", "abcd") == "abcd"
    assert apply_script("same|-2+|-3+y", "abcde") == "y"
    assert apply_script("no script", "abc") == "abc"
    assert apply_script("=go", "went") == "go"


WORDS = st.lists(TEXT, min_size=1, max_size=6)


@given(WORDS, WORDS, st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=6))
def test_confirmed_scripts_turn_unseen_words_into_known_lemmas(
    words: list[str], others: list[str], pairs: list[tuple[str, str]]
) -> None:
    lexicon = LemmaLexicon.count(pairs)
    scripts = sorted({edit_script(word, lemma) for word in others for _, lemma in pairs if lemma} - {"="})
    scripts = [script for script in scripts if not script.startswith("=")]
    seen, lemmas = {word.lower() for word, _ in pairs}, {lemma for _, lemma in pairs}
    expected = [
        [word.lower() not in seen and apply_script(script, word) in lemmas for script in scripts] for word in words
    ]
    np.testing.assert_array_equal(lexicon.confirmed(words, scripts), np.reshape(expected, (len(words), len(scripts))))


def test_scripts_that_are_a_whole_lemma_are_not_confirmed() -> None:
    lexicon = LemmaLexicon.count([("is", "be"), ("walked", "walk")])
    assert lexicon.confirmed(["was", "walks"], ["=be", "low|-0+|-1+"]).tolist() == [[False, False], [False, True]]


def test_lexicon_is_saved_and_loaded(tmp_path: Path) -> None:
    assert LemmaLexicon.load(tmp_path) is None
    lexicon = LemmaLexicon.count([("Dogs", "dog"), ("é", "É")])
    lexicon.save(tmp_path)
    assert LemmaLexicon.load(tmp_path) == lexicon
    (tmp_path / "lemmas.json").write_text("[]", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"lemmas.json cannot be read"):
        LemmaLexicon.load(tmp_path)


@pytest.mark.parametrize(
    "model", [{"kind": "features"}, {"kind": "features", "structure": "softmax"}, {"kind": "hmm"}, TINY]
)
def test_bonus_is_added_to_the_scores_of_saved_models(tmp_path: Path, model: dict[str, Any]) -> None:
    train = write(tmp_path / "train.conll", ["Dogs/dog walked/walk home/home", "cats/cat are/be old/old"])
    made = configs.parse(
        TagConfig,
        {
            "machine": {"device": "cpu", "threads": 1},
            "data": {"train": [str(train)], "dev": str(train)},
            "tags": {"lemmas": True, "lemma_bonus": 2.5},
            "model": model,
            "training": {"max_epochs": 2},
        },
    )
    train_run(made, tmp_path / "run", SilentReporter())
    task = load_task(tmp_path / "run", "cpu")
    assert isinstance(task, TagTask)
    words = ("Walks", "dog", "Dogs")  # walk and dog are lemmas of train, and dogs is one of its words
    with_bonus = _emissions(task, words)
    task.tags = replace(task.tags, lemma_bonus=0.0)
    expected = [[2.5 * (apply_script(q, w) == lemma) for q in task.tags.names.names] for w, lemma in _confirmed(words)]
    np.testing.assert_allclose(with_bonus - _emissions(task, words), expected, atol=1e-5)


def _confirmed(words: tuple[str, ...]) -> list[tuple[str, str | None]]:
    return list(zip(words, ("walk", "dog", None), strict=True))


def _emissions(task: TagTask, words: tuple[str, ...]) -> np.ndarray:
    distribution = task.distribution([task.to_example(words)])
    assert isinstance(distribution, ChainDistribution)
    return distribution.chain.emissions[0].numpy()
