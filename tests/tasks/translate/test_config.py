"""Validation and defaults of the config of a translator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena import config as configs
from catena.config import keys, to_toml
from catena.errors import ConfigError
from catena.tasks.spec import TASKS
from catena.tasks.translate.config import TranslateConfig, TranslateDataConfig


def parse(**sections: Any) -> TranslateConfig:
    return configs.parse(TranslateConfig, sections)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"data": {"source": ["a.en"]}}, "data.target must have as many files as data.source (1), got 0."),
        (
            {"data": {"source": ["a", "b"], "target": ["c"]}},
            "Separate several files by commas, as in --target a.de,b.de.",
        ),
        ({"data": {"train": ["a"], "source": ["b"], "target": ["c"]}}, "data.train and data.source are both set."),
        ({"data": {"dev_source": "a"}}, "Only one of data.dev_source and data.dev_target is set."),
        (
            {"data": {"test": "t", "test_source": "a", "test_target": "b"}},
            "data.test and data.test_source are both set.",
        ),
        ({"data": {"target_column": "x"}}, "Only one of data.source_column and data.target_column is set."),
        ({"evaluation": {"metrics": ["blue"]}}, "Unknown metric 'blue' in evaluation.metrics: did you mean 'bleu'"),
        ({"training": {"metric": "ter"}}, "'ter' is not computed at evaluations. Add it to evaluation.metrics"),
        ({"training": {"metric": "accuracy"}}, "Unknown training.metric 'accuracy' of this model"),
        (
            {"vocabulary": {"joint": True}, "target_tokenizer": {"kind": "words"}},
            "target_tokenizer.kind must be 'same' if vocabulary.joint = true, got 'words'.",
        ),
        (
            {"model": {"kind": "transformer", "positions": "learned", "max_length": 100}},
            "model.max_length must be at least 201, data.max_length plus the end symbol, got 100.",
        ),
    ],
)
def test_config_with_inconsistent_options_raises(sections: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(**sections)
    assert words in " ".join(str(caught.value).split())


def test_joint_is_true_for_subwords_and_false_for_words() -> None:
    assert parse().joint
    assert not parse(tokenizer={"kind": "words"}).joint
    assert not parse(tokenizer={"kind": "characters"}).joint
    assert not parse(target_tokenizer={"kind": "bytes"}).joint
    assert parse(tokenizer={"kind": "words"}, vocabulary={"joint": True}).joint
    assert not parse(vocabulary={"joint": False}).joint


def test_metric_is_the_first_scored_metric() -> None:
    assert parse().metric == "bleu"
    assert parse(evaluation={"metrics": ["rouge_l", "rouge_1"]}).metric == "rouge_l"
    assert parse(evaluation={"sentences": 0}).metric == "perplexity"


def test_training_defaults_follow_the_model_unless_set() -> None:
    assert parse().training.schedule == "inverse_sqrt"
    assert parse(model={"kind": "recurrent"}).training.schedule == "plateau"
    assert parse(training={"optimizer": "sgd"}).training.schedule == "constant"


def test_files_are_named_by_split_and_side() -> None:
    data = TranslateDataConfig(
        source=("a.en", "b.en"), target=("a.de", "b.de"), dev="d.tsv", test_source="t.en", test_target="t.de"
    )
    assert data.files() == {
        "train-source": Path("a.en"), "train-target": Path("a.de"),
        "train-source-2": Path("b.en"), "train-target-2": Path("b.de"),
        "dev": Path("d.tsv"), "test-source": Path("t.en"), "test-target": Path("t.de"),
    }  # fmt: skip
    assert list(data.example_files()) == ["train-source", "train-source-2", "dev", "test-source"]
    assert [data.target_of(Path(name)) for name in ("b.en", "t.en", "d.tsv")] == [Path("b.de"), Path("t.de"), None]
    assert TranslateDataConfig(train=("a.tsv",)).files() == {"train": Path("a.tsv")}


def test_references_for_evaluation_replace_the_training_files() -> None:
    data = TranslateDataConfig(source=("a.en",), target=("a.de",), dev_source="d.en", dev_target="d.de", swap=True)
    reading = data.for_reading({"target": ["r.de"]})
    assert reading.target_of(Path("d.en")) == reading.target_of(Path("x.en")) == Path("r.de")
    assert not reading.swap
    assert data.for_reading({"encoding": "cp1252"}).target_of(Path("d.en")) == Path("d.de")
    assert not data.for_reading({"encoding": "cp1252"}).sets_columns
    assert data.for_reading({"source_column": "en"}).sets_columns


@pytest.mark.parametrize("kind", ["recurrent", "transformer", "convolutional", "copy"])
def test_config_round_trips_through_toml(kind: str, tmp_path: Path) -> None:
    config = parse(target_tokenizer={"kind": "characters"}, model={"kind": kind})
    (tmp_path / "config.toml").write_text(to_toml(config), encoding="utf-8")
    assert configs.load(TranslateConfig, tmp_path / "config.toml") == config


def test_none_has_one_meaning_for_every_option() -> None:
    assert len(TASKS) > 0
    for entry in TASKS.values():
        for key in keys(entry.config_class()):
            both = type(None) in key.types and "none" in key.choices
            assert not both, f"{entry.name}: {key.dotted} would not be read as it was written"
