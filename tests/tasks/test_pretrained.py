"""Pretrain a language model, start a classifier from it, unfreeze its layers one by one."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from catena import config as configs
from catena.checkpoint import open_checkpoint
from catena.encoders.build import build_encoder
from catena.encoders.config import RecurrentConfig, TransformerConfig
from catena.errors import ConfigError
from catena.tasks.classify.config import ClassifyConfig
from catena.tasks.lm.config import LmConfig
from catena.tasks.pretrained import layers_from_the_top, open_pretrained, unfreeze_top_layers
from catena.tasks.runs import load_task, resume_run, train_run
from catena.training.report import SilentReporter

SMALL: dict[str, dict[str, Any]] = {
    "lstm": {"encoder": {"d": 10}, "embedding": {"d": 8}},
    "transformer": {"encoder": {"d": 8, "n_heads": 2, "n_layers": 2, "d_ff": 8}, "embedding": {"d": 8}},
}


def pretrain(tmp_path: Path, kind: str = "lstm", **model: Any) -> Path:
    text = tmp_path / "text.txt"
    text.write_text("the good film was good\na bad film was bad\n" * 20, encoding="utf-8")
    values = {
        "machine": {"device": "cpu"},
        "data": {"train": [str(text)]},
        "tokenizer": {"kind": "whitespace"},
        "model": {"kind": kind, **SMALL.get(kind, {}), **model},
        "batches": {"batch_size": 4, "length": 6},
        "training": {"max_epochs": 1},
    }
    train_run(configs.parse(LmConfig, values), tmp_path / kind, SilentReporter())
    return tmp_path / kind


def classify(tmp_path: Path, run: Path, **options: Any) -> ClassifyConfig:
    data = tmp_path / "labeled.tsv"
    data.write_text("good\tthe good film\nbad\ta bad film\n" * 10, encoding="utf-8")
    values = {
        "machine": {"device": "cpu"},
        "data": {"train": [str(data)], "input_format": "tsv"},
        "pretrained": str(run),
        "training": {"max_epochs": 2, "eval_every": 1000, "keep_last": 9},
        **options,
    }
    return configs.parse(ClassifyConfig, values)


@pytest.mark.parametrize("kind", ["lstm", "transformer"])
def test_pretrained_classifier_loads_without_the_language_model(tmp_path: Path, kind: str) -> None:
    run = pretrain(tmp_path, kind)
    theirs = open_checkpoint(run).weights()
    config = classify(tmp_path, run)
    train_run(config, tmp_path / "run", SilentReporter())
    start = open_checkpoint(tmp_path / "run" / "checkpoints" / "step-000000").weights()
    assert torch.equal(start["embedding.weight"], theirs["embedding.weight"])
    encoder = {k.removeprefix("summary.encoder."): w for k, w in start.items() if k.startswith("summary.encoder.")}
    assert len(encoder) > 3
    assert all(torch.equal(w, theirs[f"encoder.{k}"]) for k, w in encoder.items())
    for path in run.rglob("*"):
        if path.is_file():
            path.unlink()
    model = load_task(tmp_path / "run")
    assert len(model.predict(["the good film"])) == 1
    assert "film" in model.encoding.texts.vocabulary  # type: ignore[attr-defined]


def test_layers_are_unfrozen_from_the_top_by_epoch(tmp_path: Path) -> None:
    run = pretrain(tmp_path)
    config = classify(
        tmp_path, run, training={"max_epochs": 4, "patience": 0, "keep_last": 9}, batches={"batch_size": 8}
    )
    train_run(config, tmp_path / "run", SilentReporter())
    steps = sorted((tmp_path / "run" / "checkpoints").iterdir())
    weights = [open_checkpoint(step).weights() for step in steps]
    watched = {
        "output.weight": 1,
        "summary.encoder.forwards.1.network.weight_hh_l0": 2,
        "summary.encoder.forwards.0.network.weight_hh_l0": 3,
        "embedding.weight": 4,
    }
    for name, epoch in watched.items():
        changed = [not torch.equal(a[name], b[name]) for a, b in pairwise(weights)]
        assert changed == [i + 1 >= epoch for i in range(4)], name


def test_unfreeze_zero_trains_all_layers(tmp_path: Path) -> None:
    run = pretrain(tmp_path)
    train_run(classify(tmp_path, run, unfreeze=0), tmp_path / "run", SilentReporter())
    first, last = (open_checkpoint(tmp_path / "run" / name).weights() for name in ("checkpoints/step-000000", "last"))
    assert all(not torch.equal(first[name], last[name]) for name in first if name != "temperature")


def test_resumed_fine_tuning_gives_the_same_result(tmp_path: Path) -> None:
    run = pretrain(tmp_path)
    config = classify(tmp_path, run, training={"max_epochs": 3, "patience": 0})
    whole = train_run(config, tmp_path / "whole", SilentReporter())
    assert resume_run(tmp_path / "whole", SilentReporter()).scores == whole.scores


def test_invalid_pretrained_models_are_rejected(tmp_path: Path) -> None:
    ngram = pretrain(tmp_path, "ngram", order=2)
    with pytest.raises(ConfigError, match="is a model of kind 'ngram', which has no encoder"):
        open_pretrained(ngram)
    config = classify(tmp_path, pretrain(tmp_path, "feed-forward"))
    with pytest.raises(ConfigError, match="is of kind 'feed-forward', whose encoder a classifier cannot use"):
        train_run(config, tmp_path / "run", SilentReporter())
    train_run(classify(tmp_path, pretrain(tmp_path)), tmp_path / "cls", SilentReporter())
    with pytest.raises(ConfigError, match="must be a run of task 'lm', got one of task 'classify'"):
        open_pretrained(tmp_path / "cls")
    start = open_pretrained(tmp_path / "lstm")
    with pytest.raises(ConfigError, match=r"the embedding must have the shapes of the one in"):
        start.put_into(nn.Embedding(3, 2), nn.Identity())


def test_layer_groups_have_every_parameter_once_top_first() -> None:
    for settings in (RecurrentConfig(d=3, n_layers=3, bidirectional=True), TransformerConfig(d=8, n_heads=2)):
        encoder = build_encoder(settings, 5)
        groups = layers_from_the_top(encoder)
        assert sorted(id(p) for group in groups for p in group) == sorted(id(p) for p in encoder.parameters())
    assert len(groups) == 3, "two layers, and the input projection"
    unfreeze_top_layers(groups, 2, 1)
    assert [all(p.requires_grad for p in group) for group in groups] == [True, False, False]
    unfreeze_top_layers(groups, 5, 2)
    assert [all(p.requires_grad for p in group) for group in groups] == [True, True, False]
