"""From files to a run folder and back: train, kill and resume, load, predict."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catena.checkpoint import open_checkpoint
from catena.data.reading import ReadCounter
from catena.errors import ConfigError
from catena.randomness import Randomness
from catena.tasks.base import Origin
from catena.tasks.runs import load_task, resume_run, train_run
from catena.tasks.sources import Sources
from catena.tasks.tag.config import TagConfig
from catena.tasks.tag.features.learners import BatchLearner, FeatureLearner, OnlineLearner
from catena.tasks.tag.hmm.em import EmLearner
from catena.tasks.tag.hmm.task import HMMTagTask
from catena.training.report import SilentReporter
from catena.training.run import open_run
from tests.laws.resume_laws import Killed, same_tensors, survives, without_times

NOUNS, VERBS = [f"noun{c}" for c in "abcdefgh"], [f"verb{c}" for c in "abcdef"]


def written(folder: Path, n: int, seed: int, unknown: float = 0.0) -> Path:
    """Sentences of a small grammar, with a column between the word and its tag."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n):
        for word, tag in [("the", "D"), (str(rng.choice(NOUNS)), "N"), (str(rng.choice(VERBS)), "V")] * rng.integers(
            1, 3
        ):
            shown = "?" if rng.random() < unknown else tag
            lines.append(f"{word}\t{word[0]}\t{shown}")
        lines.append("")
    path = folder / f"data{seed}.tsv"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


MODELS: dict[str, dict[str, Any]] = {
    "crf": {"kind": "features", "templates": ["w[-1..1]", "column1[0]"], "l2": 0.1},
    "pairs": {"kind": "features", "templates": ["w[0]", "tag[-1]|column1[0]", "B"]},
    "sparse": {"kind": "features", "l1": 0.2, "l2": 0.0},
    "perceptron": {"kind": "features", "structure": "perceptron", "templates": ["w[-1..0]"]},
    "memm": {"kind": "features", "structure": "memm", "optimizer": "sgd"},
    "hmm": {"kind": "hmm"},
    "em": {"kind": "hmm", "learn": "em"},
}


def config(folder: Path, name: str, **training: object) -> TagConfig:
    return TagConfig.model_validate({
        "model": MODELS[name],
        "data": {
            "train": [str(written(folder, 40, 1))], "test": str(written(folder, 10, 2)), "input_format": "columns",
        },
        "training": {"max_epochs": 7, "eval_every": 2, **training},
        "machine": {"threads": 1},
    })  # fmt: skip


@pytest.mark.parametrize("name", [name for name in MODELS if name != "em"])
def test_trained_model_loads_and_predicts(name: str, tmp_path: Path) -> None:
    trained = train_run(config(tmp_path, name), tmp_path / "run", SilentReporter())
    assert trained.test_scores["accuracy"] > 0.95
    task = load_task(tmp_path / "run")
    report = task.evaluate(task.read(task.config, tmp_path / "data2.tsv", ReadCounter()))
    assert report.scores()["accuracy"] == pytest.approx(trained.test_scores["accuracy"])
    assert len(task.describe(3)) > 3


def test_em_names_states_by_tags(tmp_path: Path) -> None:
    trained = train_run(config(tmp_path, "em", max_epochs=40), tmp_path / "run", SilentReporter())
    assert trained.test_scores["accuracy"] > 0.6


@pytest.mark.parametrize("name", ["crf", "hmm"])
def test_unknown_tags_are_summed_over(name: str, tmp_path: Path) -> None:
    whole = config(tmp_path, name)
    partly = whole.model_copy(update={
        "data": whole.data.model_copy(update={"train": (str(written(tmp_path, 60, 3, unknown=0.5)),)}),
        "tags": whole.tags.model_copy(update={"unknown": "?"}),
    })  # fmt: skip
    trained = train_run(partly, tmp_path / "run", SilentReporter())
    assert trained.test_scores["accuracy"] > 0.95


@pytest.mark.parametrize(("name", "at"), [("crf", 1), ("crf", 5), ("sparse", 4), ("perceptron", 6), ("em", 4)])
def test_killed_and_resumed_run_gives_the_same_result(
    name: str, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config(tmp_path, name, save_every=1)
    train_run(settings, tmp_path / "whole", SilentReporter())
    kind: type[FeatureLearner] = {"perceptron": OnlineLearner, "em": EmLearner}.get(name, BatchLearner)
    step, calls = kind.step, itertools.count(1)

    def dies(self: Any) -> bool:
        if next(calls) == at:
            raise Killed
        return step(self)

    monkeypatch.setattr(kind, "step", dies)
    survives(lambda: train_run(settings, tmp_path / "killed", SilentReporter()))
    monkeypatch.setattr(kind, "step", step)
    resume_run(tmp_path / "killed", SilentReporter())
    whole, killed = open_run(tmp_path / "whole"), open_run(tmp_path / "killed")
    for place in ("last", "best"):
        one, two = open_checkpoint(whole.path / place), open_checkpoint(killed.path / place)
        assert one.folder.name == two.folder.name
        same_tensors(one.weights(), two.weights())
        same_tensors(one.training(), two.training())
    assert without_times(whole.metrics()) == without_times(killed.metrics())


@pytest.mark.parametrize("too_long", ["drop", "cut"])
def test_long_sentences_are_dropped_or_cut(too_long: str, tmp_path: Path) -> None:
    made = config(tmp_path, "hmm")
    made = made.model_copy(update={"data": made.data.model_copy(update={"max_length": 4, "too_long": too_long})})
    sources = Sources(HMMTagTask, made)
    parts, _ = HMMTagTask.gather(made, sources, Origin(Randomness(0)))
    assert {len(one.sentence) for one in parts.train} == ({3} if too_long == "drop" else {3, 4})
    reasons = {one.reason for one in sources.counter.dropped}
    assert reasons == ({"longer than max_length=4"} if too_long == "drop" else set())
    assert max(len(one.sentence) for one in (*parts.dev, *parts.test)) == 6


def test_metric_without_spans_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="metric must be one of accuracy, sentence_accuracy, got 'f1'"):
        train_run(config(tmp_path, "crf", metric="f1"), tmp_path / "run", SilentReporter())


def test_resume_of_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    first = train_run(config(tmp_path, "crf"), tmp_path / "run", SilentReporter())
    before = open_run(tmp_path / "run").metrics()
    again = resume_run(tmp_path / "run", SilentReporter())
    assert again == first
    assert open_run(tmp_path / "run").metrics() == before


def test_predictions_follow_the_tag_scheme(tmp_path: Path) -> None:
    rows = ["a\tO", "b\tB-x", "c\tI-x", ""] * 20 + ["b\tO", "c\tO", ""] * 20
    path = tmp_path / "spans.tsv"
    path.write_text("\n".join(rows), encoding="utf-8")
    values = {
        "model": {"kind": "features", "templates": ["w[0]"], "structure": "softmax"},
        "data": {"train": [str(path)]},
    }
    train_run(TagConfig.model_validate(values), tmp_path / "run", SilentReporter())
    task = load_task(tmp_path / "run")
    for words in itertools.product("abc", repeat=3):
        tags = task.predict([list(words)])[0].tags
        assert all(tag != "I-x" or before != "O" for before, tag in itertools.pairwise(("O", *tags)))
