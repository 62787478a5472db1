"""Every structure recovers the tags of a known generator, also from partial tags; resumed runs are equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from catena import config as configs
from catena.checkpoint import open_checkpoint
from catena.errors import CheckpointError
from catena.tasks.lm.config import LmConfig
from catena.tasks.neural import NetworkTraining
from catena.tasks.runs import resume_run, train_run
from catena.tasks.tag.config import StructureName
from catena.tasks.tag.task import NeuralTagTask
from catena.training.report import SilentReporter
from tests.tasks.tag.helpers import config, drawn, prepared, trained, write

STRUCTURES: tuple[StructureName, ...] = ("crf", "softmax", "memm", "perceptron", "margin", "semimarkov")


@pytest.mark.parametrize("structure", STRUCTURES)
def test_structures_recover_a_known_generator(tmp_path: Path, structure: str) -> None:
    train = write(tmp_path / "train.conll", drawn(120, 1), times=1)
    dev = write(tmp_path / "dev.conll", drawn(40, 2), times=1)
    made = config(train, {"structure": structure}, data={"dev": str(dev)}, training={"max_epochs": 5, "patience": 0})
    scores = train_run(made, tmp_path / "run", SilentReporter()).scores
    assert scores["accuracy"] > 0.9
    assert scores["f1"] > 0.75


@pytest.mark.parametrize("structure", ["crf", "semimarkov"])
def test_half_of_the_tags_suffice(tmp_path: Path, structure: str) -> None:
    holes = []
    for number, sentence in enumerate(drawn(120, 1)):
        pairs = [pair.split("/") for pair in sentence.split()]
        holes.append(" ".join(f"{w}/{'?' if (i + number) % 2 else tag}" for i, (w, tag) in enumerate(pairs)))
    train = write(tmp_path / "train.conll", holes, times=1)
    dev = write(tmp_path / "dev.conll", drawn(40, 2), times=1)
    made = config(
        train, {"structure": structure}, data={"dev": str(dev)}, tags={"unknown": "?"}, training={"max_epochs": 6}
    )
    scores = train_run(made, tmp_path / "run", SilentReporter()).scores
    assert scores["accuracy"] > 0.85


def test_resumed_run_equals_uninterrupted_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = write(tmp_path / "train.conll", drawn(40, 1), times=1)
    model = {"dropout": 0.3, "words": {"embedding": {"d": 8}, "characters": {"kind": "cnn", "filters": 4}}}
    made = config(train, model, training={"max_epochs": 3, "patience": 0})
    whole = train_run(made, tmp_path / "whole", SilentReporter())
    epochs = NetworkTraining.epoch

    def dies(self: NetworkTraining, number: int) -> Any:
        if number == 3:
            raise KeyboardInterrupt
        return epochs(self, number)

    monkeypatch.setattr(NetworkTraining, "epoch", dies)
    with pytest.raises(KeyboardInterrupt):
        train_run(made, tmp_path / "cut", SilentReporter())
    monkeypatch.undo()
    resumed = resume_run(tmp_path / "cut", SilentReporter())
    assert resumed.scores == whole.scores
    ours, theirs = (open_checkpoint(tmp_path / name / "last").weights() for name in ("cut", "whole"))
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)


def test_batch_has_the_tags_of_its_sentences(tmp_path: Path) -> None:
    training = prepared(config(write(tmp_path / "train.conll")))
    task, examples = training.task, training.data.train.examples
    assert isinstance(task, NeuralTagTask)
    rows = training.epoch(1).plan[0]  # type: ignore[attr-defined]
    batch = training.epoch(1).batch(0)
    for row, n, i in zip(batch.tags, batch.lengths.tolist(), rows, strict=True):
        assert tuple(task.tags.names.names[q] for q in row[:n]) == examples[int(i)].tags
        assert (row[n:] == -1).all()
    training.model.eval()
    loss = training.loss(batch)
    assert loss.items == len(rows)
    assert loss.total.item() == pytest.approx(training.model.losses(batch).mean().item())  # type: ignore[operator]
    assert training.describe_batch(batch) == f"{len(rows)} sentences, longest {batch.lengths.max()} words"


def test_training_from_an_old_model_keeps_its_tags(tmp_path: Path) -> None:
    made = config(write(tmp_path / "train.conll"), training={"keep_last": 9})
    train_run(made, tmp_path / "old", SilentReporter())
    train_run(made, tmp_path / "new", SilentReporter(), init_from=tmp_path / "old")
    first = open_checkpoint(tmp_path / "new" / "checkpoints" / "step-000000").weights()
    last = open_checkpoint(tmp_path / "old").weights()
    assert all(torch.equal(first[key], last[key]) for key in last)
    other = config(write(tmp_path / "train.conll"), {"structure": "memm"})
    with pytest.raises(CheckpointError, match="the model must have the options of the one in"):
        train_run(other, tmp_path / "bad", SilentReporter(), init_from=tmp_path / "old")


def test_pretrained_tagger_loads_without_the_language_model(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("Anna Smith went to New York\nshe saw Bob in Paris\n" * 10, encoding="utf-8")
    values = {
        "machine": {"device": "cpu"},
        "data": {"train": [str(text)]},
        "tokenizer": {"kind": "whitespace"},
        "model": {"kind": "lstm", "encoder": {"d": 6}, "embedding": {"d": 5}},
        "batches": {"batch_size": 4, "length": 6},
        "training": {"max_epochs": 1},
    }
    train_run(configs.parse(LmConfig, values), tmp_path / "lm", SilentReporter())
    theirs = open_checkpoint(tmp_path / "lm").weights()
    made = config(write(tmp_path / "train.conll"), pretrained=str(tmp_path / "lm"), training={"keep_last": 9})
    tagger = trained(made, tmp_path / "run")
    start = open_checkpoint(tmp_path / "run" / "checkpoints" / "step-000000").weights()
    assert torch.equal(start["encoder.reader.embedding.weight"], theirs["embedding.weight"])
    context = {key: w for key, w in start.items() if key.startswith("encoder.reader.context.")}
    assert len(context) > 3
    own = "encoder.reader.context."
    assert all(torch.equal(w, theirs["encoder." + key.removeprefix(own)]) for key, w in context.items())
    for path in (tmp_path / "lm").rglob("*"):
        if path.is_file():
            path.unlink()
    assert len(tagger.predict(["Anna saw Paris"])[0].tags) == 3
