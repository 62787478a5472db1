"""Mixtures as runs: fitted weights, copies of models, loading; and n-gram models with limits."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from catena import config as configs
from catena.errors import ConfigError
from catena.lm.mixture import CacheModel, LinearMixture
from catena.tasks.lm.config import LmConfig
from catena.tasks.lm.task import LmTask
from catena.tasks.runs import load_task, train_run
from catena.training.report import SilentReporter
from tests.tasks.lm.helpers import evaluate_file, train

LINES = ["the cat sat on the mat .", "a dog ran away", "the dog sat", "a cat ran to the mat ."] * 10
HELD = ["the cat ran away", "a dog sat on a dog .", "", "the mat sat", "the cat the cat the cat"] * 4


class Notes(SilentReporter):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, words: str) -> None:
        self.notes.append(words)


def config(text: Path, **model: Any) -> LmConfig:
    values = {
        "machine": {"device": "cpu", "threads": 1},
        "data": {"train": [str(text)], "dev": str(text)},
        "tokenizer": {"kind": "whitespace"},
        "vocabulary": {"min_count": 1},
        "batches": {"batch_size": 4, "length": 6},
        "training": {"max_epochs": 1},
        "model": model,
    }
    return configs.parse(LmConfig, values)


@pytest.fixture
def texts(tmp_path: Path) -> tuple[Path, Path]:
    train, held = tmp_path / "train.txt", tmp_path / "held.txt"
    train.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    held.write_text("\n".join(HELD) + "\n", encoding="utf-8")
    return train, held


def made(folder: Path, text: Path, reporter: SilentReporter | None = None, **model: Any) -> LmTask:
    return train(config(text, **model), folder, reporter)[0]


def test_mixture_run_keeps_copies_of_its_models(tmp_path: Path, texts: tuple[Path, Path]) -> None:
    text, held = texts
    small = {"embedding": {"d": 8}, "encoder": {"d": 8, "n_layers": 1}}
    one = made(tmp_path / "one", text, kind="ngram", order=2)
    two = made(tmp_path / "two", text, kind="lstm", **small)
    notes, runs = Notes(), [str(tmp_path / "one"), str(tmp_path / "two")]
    made(tmp_path / "mix", held, notes, kind="mixture", runs=runs, cache=20)
    (note,) = [words for words in notes.notes if words.startswith("weights: ")]
    assert note.count(runs[0]) == note.count(runs[1]) == note.count("cache ") == 1
    shutil.rmtree(tmp_path / "one")  # the mixture keeps copies
    mix = load_task(tmp_path / "mix", "cpu")
    assert isinstance(mix, LmTask)
    assert isinstance(mix.stepper, LinearMixture)
    weights = mix.stepper.weights
    assert math.isclose(sum(weights), 1.0)
    assert min(weights) >= 0.0

    texts_to_score = ["the cat sat", "a dog sat on a dog ."]
    each = [model.predict(texts_to_score) for model in (one, two)]
    cache = CacheModel(mix.encoding.vocabulary, 20)
    for i, scored in enumerate(mix.predict(texts_to_score)):
        ids = torch.tensor([*mix.encoding.ids(scored.text), mix.encoding.end])
        rows = [*(m[i].log_probs for m in each), cache.text_log_probs(ids).tolist()]
        wanted = [
            math.log(sum(w * math.exp(p) for w, p in zip(weights, t, strict=True))) for t in zip(*rows, strict=True)
        ]
        assert scored.log_probs == pytest.approx(wanted, abs=1e-5)
    every = [[p for scored in model.predict(HELD) for p in scored.log_probs] for model in (one, two)]
    shares = [
        [w * math.exp(p) for w, p in zip(weights, (a, b, c), strict=True)]
        for a, b, c in zip(*every, _cache_log_probs(cache, mix), strict=True)
    ]
    mean = [sum(row[i] / sum(row) for row in shares) / len(shares) for i in range(3)]
    assert mean == pytest.approx(weights, abs=2e-3), "no step of expectation-maximization changes them"
    best = min(evaluate_file(model, held).scores()["perplexity"] for model in (one, two))
    assert evaluate_file(mix, held).scores()["perplexity"] < best


def _cache_log_probs(cache: CacheModel, model: LmTask) -> list[float]:
    rows = [torch.tensor([*model.encoding.ids(text), model.encoding.end]) for text in HELD]
    return [p for ids in rows for p in cache.text_log_probs(ids).tolist()]


def test_mixture_keeps_given_weights(tmp_path: Path, texts: tuple[Path, Path]) -> None:
    made(tmp_path / "one", texts[0], kind="ngram", order=1)
    made(tmp_path / "two", texts[0], kind="ngram", order=3)
    runs = [str(tmp_path / "one"), str(tmp_path / "two")]
    mix = made(tmp_path / "mix", texts[1], kind="mixture", runs=runs, weights=[0.25, 0.75])
    assert mix.config.model.weights == (0.25, 0.75)  # type: ignore[union-attr]
    assert mix.config.tokenizer.kind == "whitespace"
    deeper = made(tmp_path / "deeper", texts[1], kind="mixture", runs=[str(tmp_path / "mix"), runs[0]])
    assert evaluate_file(deeper, texts[1]).scores()["perplexity"] > 1


def test_mixture_of_incompatible_models_raises(tmp_path: Path, texts: tuple[Path, Path]) -> None:
    text, held = texts
    made(tmp_path / "one", text, kind="ngram", order=1)
    made(tmp_path / "other", held, kind="ngram", order=1)
    runs = [str(tmp_path / "one"), str(tmp_path / "other")]
    with pytest.raises(ConfigError, match=r"need the same tokenizer and vocabulary; .*other with"):
        made(tmp_path / "mix", held, kind="mixture", runs=runs)
    for model, sentence in (
        ({"runs": runs[:1]}, "must make at least 2 models, got"),
        ({"cache": 9}, "must make at least 2 models, got"),
        ({"runs": runs, "weights": [0.5, 0.6]}, "must be 2 nonnegative values that sum to 1, got"),
        ({"runs": runs, "weights": [1.0]}, "must be 2 nonnegative values that sum to 1, got"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            config(held, kind="mixture", **model)
    values = config(held, kind="mixture", runs=[runs[0], runs[0]])
    by_file = values.model_copy(update={"data": values.data.model_copy(update={"unit": "file"})})
    with pytest.raises(ConfigError, match=r"data\.unit must be 'line', as in .*one, got 'file'"):
        train_run(by_file, tmp_path / "mix", SilentReporter())


def test_counting_with_memory_limit_gives_the_same_model(tmp_path: Path, texts: tuple[Path, Path]) -> None:
    free = made(tmp_path / "free", texts[0], kind="ngram", order=3)
    bound = made(tmp_path / "bound", texts[0], kind="ngram", order=3, memory=16)
    a, b = (model.predict(HELD[:4]) for model in (free, bound))
    assert [x.log_probs for x in a] == [x.log_probs for x in b]
    with pytest.raises(ConfigError, match="must be 16 or more, got 1"):
        config(texts[0], kind="ngram", memory=1)


def test_entropy_pruning_removes_ngrams_with_little_effect(tmp_path: Path, texts: tuple[Path, Path]) -> None:
    whole = made(tmp_path / "whole", texts[0], kind="ngram", order=3)
    notes = Notes()
    small = made(tmp_path / "small", texts[0], notes, kind="ngram", order=3, prune_entropy=0.01)
    sizes = [sum(model.model.packed.trie().shape.sizes) for model in (whole, small)]
    assert sizes[1] < sizes[0]
    assert f"n-grams: {sizes[1]:,} of {sizes[0]:,} remain after entropy pruning" in notes.notes
