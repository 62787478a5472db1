"""Train, resume, load, predict and evaluate, for every model kind."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from catena import config as configs
from catena.errors import CheckpointError, DataError
from catena.randomness import Randomness
from catena.tasks.application import PredictOptions, ReadOptions
from catena.tasks.transduce.application import TransduceApplication
from catena.tasks.transduce.config import TransduceConfig
from catena.tasks.transduce.dataset import SymbolTokenizer, prepare
from catena.tasks.transduce.predictor import CUT, GUESSED, TransducePredictor
from catena.training.report import SilentReporter
from tests.laws.blank_laws import blank_is_answered_by_nothing
from tests.laws.network_laws import the_network_answers
from tests.laws.resume_laws import SEED, killed_anywhere_ends_the_same

RULES = {"sh": "S", "a": "A", "t": "T", "oo": "U", "m": "M", "ee": "I"}
KINDS: dict[str, dict[str, Any]] = {
    "joint": {"order": 3, "rounds": 4},
    "edit": {"buckets": 512},
    "encoder": {"kind": "edit", "scores": "encoder", "size": 8, "encoder": {"d": 8}},
    "seq2seq": {"network": {"d": 16, "d_embedding": 8, "dropout": 0.1}, "search": {"width": 2}},
    "baseline": {},
}


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng, names = np.random.default_rng(0), list(RULES)
    lines = {}
    for _ in range(200):
        chosen = [names[k] for k in rng.integers(0, len(names), rng.integers(2, 5))]
        target = " ".join(RULES[name] for name in chosen)
        odd = rng.random()  # now and then another vowel or another consonant, so that there is a second answer
        lines["".join(chosen)] = target.replace("A", "E" if odd < 0.1 else "A").replace("T", "D" if odd > 0.9 else "T")
    path = tmp_path_factory.mktemp("data") / "words.tsv"
    path.write_text("".join(f"{x}\t{y}\n" for x, y in lines.items()), encoding="utf-8")
    return path


def config(words: Path, kind: str = "joint", **sections: Any) -> TransduceConfig:
    values: dict[str, Any] = {"machine": {"device": "cpu", "threads": 1}, **sections}
    values["data"] = {
        "train": [str(words)],
        "target_tokens": "symbols",
        "dev_fraction": 0.2,
        **sections.get("data", {}),
    }
    values["model"] = {"kind": kind, **KINDS[kind], **sections.get("model", {})}
    values.setdefault("training", {"max_epochs": 2, "optimizer": "adam", "learning_rate": 0.05})
    return configs.parse(TransduceConfig, values)


def train(made: TransduceConfig, folder: Path) -> TransducePredictor:
    trained = TransduceApplication().train(made, folder, SilentReporter())
    assert 0 <= trained.scores["word_error"] <= 1
    found = TransduceApplication().load(folder, "cpu")
    assert isinstance(found, TransducePredictor)
    return found


@pytest.fixture(scope="module")
def joint(words: Path, tmp_path_factory: pytest.TempPathFactory) -> TransducePredictor:
    return train(config(words), tmp_path_factory.mktemp("runs") / "joint")


@pytest.mark.parametrize("kind", KINDS)
def test_every_model_kind_trains_loads_and_predicts(kind: str, words: Path, tmp_path: Path) -> None:
    model = train(config(words, kind, data={"test_fraction": 0.1}), tmp_path / "run")
    answers = model.predict(["shat", "moot"])
    assert [answer.text for answer in answers] == ["shat", "moot"]
    assert model.describe(3)
    report = model.evaluate(words)
    assert report.signatures["word_error"].startswith("word_error|references:any|n=")
    again = TransduceApplication().load(tmp_path / "run", "cpu")
    assert again.predict(["shat", "moot"]) == answers


def test_dev_scores_of_training_equal_those_of_the_loaded_model(words: Path, tmp_path: Path) -> None:
    made = config(words, "edit")
    trained = TransduceApplication().train(made, tmp_path / "run", SilentReporter())
    model = TransduceApplication().load(tmp_path / "run", "cpu")
    dev = tmp_path / "dev.tsv"
    dev.write_text(
        "".join(f"{''.join(w.source)}\t{' '.join(y)}\n" for w in prepare(made).dev for y in w.targets), encoding="utf-8"
    )
    assert model.evaluate(dev).scores == pytest.approx(trained.scores)


def test_joint_model_learns_a_rule(joint: TransducePredictor, words: Path) -> None:
    assert str(joint.predict(["shooteema"])[0]) == "S U T I M A"
    assert joint.evaluate(words).scores["word_error"] < 0.25


def test_predict_n_best_with_scores_and_alignments(joint: TransducePredictor) -> None:
    options = PredictOptions(n_best=3, scores=True, alignment=True)
    answer = joint.predict(["shat"], options)[0]
    assert len(answer.targets) == 3 == len(set(answer.targets))
    scores = [value for value in answer.log_probs if value is not None]
    assert scores == sorted(scores, reverse=True)
    assert math.fsum(map(math.exp, scores)) <= 1 + 1e-9
    lines = joint.write(answer, "shat", "tsv").splitlines()
    assert lines[0].split("\t")[:2] == ["shat", "S A T"]
    assert lines[0].split("\t")[3].startswith("sh|S")
    row = json.loads(joint.write(answer, "shat", "jsonl"))
    assert row["targets"][0]["target"] == "S A T"
    assert row["targets"][0]["alignment"][0] == ["sh", "S"]
    assert joint.write(joint.predict(["shat"])[0], "shat", "text") == "S A T"
    assert joint.write(joint.predict(["shat"])[0], "shat", "tsv") == "shat\tS A T"


def test_picture_of_alignment(joint: TransducePredictor) -> None:
    drawing = joint.picture("shat").svg
    assert all(f"{a} \u2013 {b}" in drawing for a, b in (("s", "S"), ("h", "S"), ("a", "A"), ("t", "T")))
    assert joint.sketch("shat") == "sh  a  t\nS   A  T"
    with pytest.raises(DataError, match=r"The target of .* is empty"):
        joint.sketch("???")


@pytest.mark.parametrize("kind", ["edit", "seq2seq"])
def test_resume_after_kill_gives_the_same_model(kind: str, words: Path, tmp_path: Path) -> None:
    made = config(words, kind, batches={"batch_size": 32})

    def make_task() -> Any:
        data = TransduceApplication().prepare(made, Randomness(SEED), None, None)
        return TransduceApplication().task(made, data, torch.device("cpu"), Randomness(SEED))

    killed_anywhere_ends_the_same(make_task, made.training, tmp_path, kills=[1, 3])


def test_scheduled_sampling_follows_training_steps(words: Path) -> None:
    sampling = {"schedule": "linear", "k": 0.9, "c": 0.1, "least": 0.2}
    made = config(words, "seq2seq", model={"network": {"d": 16, "d_embedding": 8, "sampling": sampling}})
    data = TransduceApplication().prepare(made, Randomness(SEED), None, None)
    task = TransduceApplication().task(made, data, torch.device("cpu"), Randomness(SEED))
    shares = []
    for step in (0, 3, 100):
        task.before_step(step)
        shares.append(task.model.teacher_forcing_prob)
    assert shares == pytest.approx([0.9, 0.6, 0.2])


def test_resume_repeats_a_fitted_run(words: Path, tmp_path: Path) -> None:
    made = config(words)
    first = TransduceApplication().train(made, tmp_path / "run", SilentReporter())
    again = TransduceApplication().resume(tmp_path / "run", SilentReporter())
    assert again.scores == first.scores
    with pytest.raises(CheckpointError, match="a model of kind 'joint' is always created from scratch"):
        TransduceApplication().train(made, tmp_path / "other", SilentReporter(), start_from=tmp_path / "run")


@pytest.mark.parametrize("kind", ["edit", "seq2seq"])
def test_network_starts_from_old_weights_and_symbols(kind: str, words: Path, tmp_path: Path) -> None:
    train(config(words, kind), tmp_path / "old")
    few = tmp_path / "few.tsv"
    few.write_text("".join(f"{'at' * n}\t{'A T ' * n}\n" for n in range(1, 30)) + "a\tZ\n", encoding="utf-8")
    made = config(few, kind, data={"target_tokens": "symbols", "dev": str(words)})
    TransduceApplication().train(made, tmp_path / "new", SilentReporter(), start_from=tmp_path / "old")
    model = TransduceApplication().load(tmp_path / "new", "cpu")
    assert "sh" not in model.describe(1)[1]
    assert " s " in model.describe(1)[1]


def test_predict_unusual_input(joint: TransducePredictor) -> None:
    for text in ("", "   ", "???", "sh\x00t", "ä", "a" * 2000):
        answer = joint.predict([text])[0]
        assert answer.text == text
        assert joint.write(answer, text, "tsv").startswith(text)
    assert len(str(joint.predict(["moo" * 700])[0]).split()) == 1400
    with pytest.raises(DataError, match="items must be a list of texts"):
        joint.predict("shoot")
    blank_is_answered_by_nothing(joint, "targets")
    with pytest.raises(DataError, match="a model of the task transduce has no network here"):
        _ = joint.network
    (guess,) = joint.predict(["你好"], PredictOptions(scores=True))
    assert (guess.known, guess.log_probs) == (False, (None,)), "that it writes nothing is not certain"
    assert len(joint.remarks(guess)) == 1
    assert json.loads(joint.write(guess, "你好", "jsonl"))["known"] is False
    with pytest.raises(DataError, match="--samples is not an option of"):
        joint.predict(["shoot"], PredictOptions(samples=2))


def test_edit_model_predicts_long_and_unknown_sources(words: Path, tmp_path: Path) -> None:
    model = train(config(words, "edit"), tmp_path / "run")
    assert len(model.predict(["at" * 1000])[0].targets) == 1
    assert model.predict(["?", ""])[0].targets


def test_read_inputs_ends_source_at_tab(joint: TransducePredictor, words: Path, tmp_path: Path) -> None:
    assert list(joint.items_of_lines(iter(["shat\tS A T", "moo"]))) == ["shat", "moo"]
    named = tmp_path / "named.tsv"
    named.write_text("word\tpronunciation\nshat\tS A T\nmoo\tM U\n", encoding="utf-8")
    for reading in (ReadOptions(), ReadOptions(format="parallel")):
        assert list(joint.read_inputs(named, reading)) == ["shat", "moo"], "a first line may name the columns"
    assert len(joint.words(named)) == 2
    sources = [line.split("\t")[0] for line in words.read_text().splitlines()]
    assert list(joint.read_inputs(words)) == sources
    assert list(joint.read_inputs(words, ReadOptions(format="parallel"))) == sources
    assert [a.text for a in joint.predict_stream(iter(sources * 2))] == sources * 2


def test_baseline_with_scores_raises(words: Path, tmp_path: Path) -> None:
    model = train(config(words, "baseline"), tmp_path / "run")
    with pytest.raises(DataError, match="A baseline has no probabilities"):
        model.predict(["shat"], PredictOptions(scores=True))
    answers = model.answers(words)
    assert answers.measure(answers.right, answers.given) == model.evaluate(words).scores["word_error"]
    with pytest.raises(DataError, match="Unknown metric 'accuracy' of a transducer"):
        model.answers(words, "accuracy")


def test_load_damaged_folder_names_the_file(words: Path, tmp_path: Path) -> None:
    from catena.tasks.transduce.predictor import load_alphabets, load_cutting

    for load, name in ((load_cutting, "cutting.json"), (load_alphabets, "symbols.json")):
        (tmp_path / name).write_text("[1]", encoding="utf-8")
        with pytest.raises(CheckpointError, match=name.replace(".", r"\.")):
            load(tmp_path)


def test_fit_to_time_chooses_the_joint_model(words: Path) -> None:
    made, lines = TransduceApplication().fit_to_time(config(words, "edit"))
    assert made.model.kind == "joint"
    assert "joint n-gram model" in lines[0]


def test_search_and_metric_of_a_network_can_be_set(words: Path, tmp_path: Path) -> None:
    made = config(words, "seq2seq", training={"max_epochs": 1, "metric": "symbol_error"})
    assert TransduceApplication().train(made, tmp_path / "run", SilentReporter()).metric == "symbol_error"
    model = TransduceApplication().load(tmp_path / "run", "cpu")
    answer, empty, strange = model.predict(
        ["shat", "", "?" * 50], PredictOptions(n_best=4, scores=True, alignment=True)
    )
    assert len(set(answer.targets)) == 4, "a beam is as wide as there are answers to find"
    assert empty.targets == (), "a blank text has no answer"
    assert len(strange.targets) == 4
    assert model.remarks(strange) == [GUESSED, *[CUT] * strange.finished.count(False)]
    blank_is_answered_by_nothing(model, "targets")
    the_network_answers(model, ["shat"])
    for target, links in zip(answer.targets, answer.alignments, strict=True):
        assert "".join(x for x, _ in links) == "shat"
        assert " ".join(y for _, y in links if y) == target
    greedy = model.searching(PredictOptions(beam_size=1))
    assert greedy.model.settings.search.width == 1
    assert greedy.predict(["shat"])[0].targets == model.predict(["shat"], PredictOptions(beam_size=1))[0].targets
    assert configs.parse(TransduceConfig, {"model": {"kind": "seq2seq"}}).training.schedule == "plateau"
    transformer = {"model": {"kind": "seq2seq", "network": {"kind": "transformer"}}}
    assert configs.parse(TransduceConfig, transformer).training.warmup_steps == 1000


def test_ensemble_of_different_kinds(words: Path, joint: TransducePredictor, tmp_path: Path) -> None:
    network = train(config(words, "seq2seq"), tmp_path / "run")
    options = PredictOptions(n_best=2, scores=True)
    twice = network.together([network])
    assert twice.predict(["shat"], options)[0].log_probs == pytest.approx(
        network.predict(["shat"], options)[0].log_probs
    )
    assert "and 1 more" in twice.describe(1)[0]
    mixed = joint.together([network, network])
    alone, other = (
        dict(zip(answer.targets, answer.log_probs, strict=True))
        for answer in (model.predict(["shat"], PredictOptions(n_best=10))[0] for model in (joint, network))
    )
    (answer,) = mixed.predict(["shat"], PredictOptions(n_best=3))
    for target, log_prob in zip(answer.targets, answer.log_probs, strict=True):
        parts = [math.exp(found[target]) / 3 if target in found else 0.0 for found in (alone, other, other)]
        assert math.exp(log_prob) == pytest.approx(math.fsum(parts))
    assert list(answer.log_probs) == sorted(answer.log_probs, reverse=True)
    assert mixed.describe(1)[0] == "an ensemble of 3 transducers:"
    with pytest.raises(DataError, match=r"model.kind must be seq2seq if --beam-size is set"):
        mixed.searching(PredictOptions(beam_size=3))
    rule = train(config(words, "baseline"), tmp_path / "rule")
    with pytest.raises(DataError, match="A baseline without probabilities"):
        joint.together([rule]).predict(["shat"])
    with pytest.raises(DataError, match="Model 2 of the ensemble splits texts into other symbols"):
        joint.together([TransducePredictor(joint.config, SymbolTokenizer(True, True), joint.model)])
