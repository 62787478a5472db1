"""Train, resume, load, predict and evaluate, for every model kind."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catena import config as configs
from catena.data.reading import ReadCounter
from catena.errors import CheckpointError, ConfigError, DataError
from catena.randomness import Randomness
from catena.tasks.base import Origin
from catena.tasks.runs import load_task, resume_run, train_run
from catena.tasks.sources import Sources
from catena.tasks.transduce.config import TransduceConfig, TransduceOptions
from catena.tasks.transduce.network import NetworkTransduceTask
from catena.tasks.transduce.predict import TransduceEvaluation, TransductionPrediction
from catena.tasks.transduce.task import GUESSED, TRUNCATED, CountedTransduceTask, TransduceTask
from catena.tasks.writing import PredictionWriter
from catena.training.report import SilentReporter
from catena.transduction.network import load_alphabets
from tests.laws.network_laws import the_network_answers
from tests.laws.resume_laws import SEED, killed_anywhere_ends_the_same

RULES = {"sh": "S", "a": "A", "t": "T", "oo": "U", "m": "M", "ee": "I"}
KINDS: dict[str, dict[str, Any]] = {
    "joint": {"order": 3, "rounds": 4},
    "edit": {"buckets": 512},
    "encoder": {"kind": "edit", "scores": "encoder", "size": 8, "encoder": {"d": 8}},
    "seq2seq": {"network": {"d": 16, "d_embedding": 8, "dropout": 0.1}, "search": {"beam_size": 2}},
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


def train(made: TransduceConfig, folder: Path) -> TransduceTask:
    trained = train_run(made, folder, SilentReporter())
    assert 0 <= trained.scores["word_error"] <= 1
    return load(folder)


def load(folder: Path) -> TransduceTask:
    found = load_task(folder, "cpu")
    assert isinstance(found, TransduceTask)
    return found


def evaluate(model: TransduceTask, path: Path) -> TransduceEvaluation:
    found = model.evaluate(model.read(model.config, path, ReadCounter()))
    assert isinstance(found, TransduceEvaluation)
    return found


def prepare(made: TransduceConfig, kind: str) -> Any:
    from catena.tasks.spec import get_spec

    family: Any = get_spec("transduce").family(made)
    assert issubclass(family, NetworkTransduceTask)
    return family.prepare(made, Sources(family, made), Origin(Randomness(SEED)))


def line(prediction: TransductionPrediction, format: str = "tsv") -> str:
    return "\n".join(PredictionWriter(format).lines(prediction))


@pytest.fixture(scope="module")
def joint(words: Path, tmp_path_factory: pytest.TempPathFactory) -> TransduceTask:
    return train(config(words), tmp_path_factory.mktemp("runs") / "joint")


@pytest.mark.parametrize("kind", KINDS)
def test_every_model_kind_trains_loads_and_predicts(kind: str, words: Path, tmp_path: Path) -> None:
    model = train(config(words, kind, data={"test_fraction": 0.1}), tmp_path / "run")
    predictions = model.predict(["shat", "moot"])
    assert [prediction.source for prediction in predictions] == ["shat", "moot"]
    assert model.describe(3)
    assert evaluate(model, words).signatures()["word_error"].startswith("word_error|references:any|n=")
    assert load(tmp_path / "run").predict(["shat", "moot"]) == predictions


def test_dev_scores_of_training_equal_those_of_the_loaded_model(words: Path, tmp_path: Path) -> None:
    made = config(words, "edit")
    trained = train_run(made, tmp_path / "run", SilentReporter())
    dev = tmp_path / "dev.tsv"
    rows = prepare(made, "edit").data.dev.pairs
    dev.write_text("".join(f"{''.join(x)}\t{' '.join(y)}\n" for x, y in rows), encoding="utf-8")
    assert evaluate(load(tmp_path / "run"), dev).scores() == pytest.approx(trained.scores)


def test_any_target_of_a_source_is_correct_in_any_order(joint: TransduceTask, tmp_path: Path) -> None:
    path = tmp_path / "several.tsv"
    path.write_text("shat\tS A T\nmoo\tM U\nshat\tX\nmoo\tM\nta\tX Y\n", encoding="utf-8")
    result = evaluate(joint, path)
    assert result.scores() == {"word_error": pytest.approx(1 / 3), "symbol_error": pytest.approx(2 / 7)}
    assert result.lines()[0] == "3 sources with 5 targets; 0 unknown source symbols"
    halves = [evaluate(joint, part) for part in _halves(path)]
    assert TransduceEvaluation.join(halves).scores() == result.scores()


def _halves(path: Path) -> list[Path]:
    lines = path.read_text(encoding="utf-8").splitlines()
    parts = [path.with_name(f"{i}.tsv") for i in (0, 1)]
    for part, own in zip(parts, (lines[:2], lines[2:]), strict=True):
        part.write_text("\n".join(own) + "\n", encoding="utf-8")
    return parts


def test_joint_model_learns_a_rule(joint: TransduceTask, words: Path) -> None:
    assert str(joint.predict(["sheemooshoo"])[0]) == "S I M U S U"
    assert evaluate(joint, words).scores()["word_error"] < 0.25


def test_predict_n_best_with_scores_and_alignments(joint: TransduceTask) -> None:
    options = TransduceOptions(n_best=3, scores=True, alignment=True)
    prediction = joint.predict(["shat"], options)[0]
    assert len({one.target for one in prediction.n_best}) == 3
    scores = [one.log_prob for one in prediction.n_best if one.log_prob is not None]
    assert scores == sorted(scores, reverse=True)
    assert math.fsum(map(math.exp, scores)) <= 1 + 1e-9
    first = line(prediction).splitlines()[0].split("\t")
    assert first[:2] == ["shat", "S A T"]
    assert first[3].startswith("sh|S")
    row = json.loads(line(prediction, "jsonl"))
    assert row["target"] == row["n_best"][0]["target"] == "S A T"
    assert row["alignment"][0] == ["sh", "S"]
    assert line(joint.predict(["shat"])[0], "text") == "S A T"
    assert line(joint.predict(["shat"])[0]) == "shat\tS A T"


def test_picture_of_alignment(joint: TransduceTask) -> None:
    example, plain = joint.to_example("shat"), TransduceOptions()
    drawing = joint.draw(example, plain).svg
    assert all(f"{a} \u2013 {b}" in drawing for a, b in (("s", "S"), ("h", "S"), ("a", "A"), ("t", "T")))
    assert joint.draw_text(example, plain) == "sh  a  t\nS   A  T"
    with pytest.raises(DataError, match=r"The target of .* is empty"):
        joint.draw_text(joint.to_example("???"), plain)


@pytest.mark.parametrize("kind", ["edit", "seq2seq"])
def test_resume_after_kill_gives_the_same_model(kind: str, words: Path, tmp_path: Path) -> None:
    made = config(words, kind, batches={"batch_size": 32})
    killed_anywhere_ends_the_same(lambda: prepare(made, kind), made.training, tmp_path, kills=[1, 3])


def test_scheduled_sampling_follows_training_steps(words: Path) -> None:
    sampling = {"schedule": "linear", "k": 0.9, "c": 0.1, "least": 0.2}
    made = config(words, "seq2seq", model={"network": {"d": 16, "d_embedding": 8, "sampling": sampling}})
    training = prepare(made, "seq2seq")
    probabilities = []
    for step in (0, 3, 100):
        training.before_step(step)
        probabilities.append(training.model.teacher_forcing_prob)
    assert probabilities == pytest.approx([0.9, 0.6, 0.2])


def test_resume_repeats_a_fitted_run(words: Path, tmp_path: Path) -> None:
    made = config(words)
    first = train_run(made, tmp_path / "run", SilentReporter())
    again = resume_run(tmp_path / "run", SilentReporter())
    assert again.scores == first.scores
    with pytest.raises(CheckpointError, match="a model of kind 'joint' is always created from scratch"):
        train_run(made, tmp_path / "other", SilentReporter(), init_from=tmp_path / "run")


@pytest.mark.parametrize("kind", ["edit", "seq2seq"])
def test_network_starts_from_old_weights_and_symbols(kind: str, words: Path, tmp_path: Path) -> None:
    train(config(words, kind), tmp_path / "old")
    few = tmp_path / "few.tsv"
    few.write_text("".join(f"{'at' * n}\t{'A T ' * n}\n" for n in range(1, 30)) + "a\tZ\n", encoding="utf-8")
    made = config(few, kind, data={"target_tokens": "symbols", "dev": str(words)})
    train_run(made, tmp_path / "new", SilentReporter(), init_from=tmp_path / "old")
    model = load(tmp_path / "new")
    assert "sh" not in model.describe(1)[1]
    assert " s " in model.describe(1)[1]


def blank_has_an_empty_prediction(model: TransduceTask) -> None:
    for options in (TransduceOptions(scores=True), TransduceOptions(n_best=2, scores=True, alignment=True)):
        (prediction,) = model.predict(["  "], options)
        assert str(prediction) == ""
        assert not model.warnings(prediction, options)
        assert not line(prediction).strip()
        assert line(prediction).count("\t") == 2 + options.alignment
        assert prediction.to_dict()["log_prob"] is None


def test_predict_unusual_input(joint: TransduceTask) -> None:
    for text in ("", "   ", "???", "sh\x00t", "ä", "a" * 2000):
        assert joint.predict([text])[0].source == text
    assert len(str(joint.predict(["moo" * 700])[0]).split()) == 1400
    with pytest.raises(DataError, match="predict must get a list, got one text"):
        joint.predict("shoot")
    blank_has_an_empty_prediction(joint)
    with pytest.raises(DataError, match="A model of kind 'joint' has no network"):
        _ = joint.network
    options = TransduceOptions(scores=True)
    (guess,) = joint.predict(["你好"], options)
    assert (guess.known, guess.log_prob) == (False, None), "an empty target is not certain"
    assert joint.warnings(guess, options) == [GUESSED]
    assert json.loads(line(guess, "jsonl"))["known"] is False
    with pytest.raises(ConfigError, match="samples"):
        configs.parse(TransduceOptions, {"samples": 2})


def test_edit_model_predicts_long_and_unknown_sources(words: Path, tmp_path: Path) -> None:
    model = train(config(words, "edit"), tmp_path / "run")
    assert model.predict(["at" * 1000])[0].log_prob is not None
    unknown, blank = model.predict(["?", ""], TransduceOptions(n_best=2))
    assert unknown.n_best
    assert not blank.n_best


def test_read_inputs_ends_source_at_tab(joint: TransduceTask, words: Path, tmp_path: Path) -> None:
    def sources(path: Path, **values: Any) -> list[str]:
        data = joint.config.data.for_reading(values)
        model = CountedTransduceTask(joint.config.model_copy(update={"data": data}), joint.model)
        return [example.source for example in model.read_inputs(path, ReadCounter())]

    path = tmp_path / "some.tsv"
    path.write_text("shat\tS A T\nmoo\n\n", encoding="utf-8")
    assert sources(path) == ["shat", "moo", ""]
    path.write_text("word\tpronunciation\nshat\tS A T\nmoo\tM U\n", encoding="utf-8")
    for values in ({}, {"input_format": "tsv"}):
        assert sources(path, **values) == ["shat", "moo"], "a first line may name the columns"
    assert len(list(joint.read(joint.config, path, ReadCounter()))) == 2
    wanted = [text.split("\t")[0] for text in words.read_text().splitlines()]
    assert sources(words) == sources(words, input_format="tsv") == wanted
    assert [one.source for one in joint.predict_stream(iter(wanted * 2))] == wanted * 2


def test_baseline_with_scores_raises(words: Path, tmp_path: Path) -> None:
    model = train(config(words, "baseline"), tmp_path / "run")
    with pytest.raises(DataError, match="A baseline has no probabilities"):
        model.predict(["shat"], TransduceOptions(scores=True))
    result = evaluate(model, words)
    paired = result.paired("word_error")
    assert paired.metric(paired.references, paired.predictions) == result.scores()["word_error"]
    with pytest.raises(ConfigError, match="metric must be one of word_error, symbol_error, got 'accuracy'"):
        model.find_metric("accuracy")


def test_load_damaged_folder_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "symbols.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"symbols\.json"):
        load_alphabets(tmp_path)


def test_search_and_metric_of_a_network_can_be_set(words: Path, tmp_path: Path) -> None:
    made = config(words, "seq2seq", training={"max_epochs": 1, "metric": "symbol_error"})
    assert train_run(made, tmp_path / "run", SilentReporter()).metric == "symbol_error"
    model = load(tmp_path / "run")
    options = TransduceOptions(n_best=4, scores=True, alignment=True)
    prediction, empty, strange = model.predict(["shat", "", "?" * 50], options)
    assert len({one.target for one in prediction.n_best}) == 4, "the beam is as large as n_best"
    assert (empty.target, empty.n_best) == ("", ()), "a blank text has no target"
    assert len(strange.n_best) == 4
    truncated = [TRUNCATED] * sum(one.truncated for one in strange.n_best)
    assert model.warnings(strange, options) == [GUESSED, *truncated]
    blank_has_an_empty_prediction(model)
    the_network_answers(model, ["shat"])
    for one in prediction.n_best:
        assert "".join(x for x, _ in one.alignment or ()) == "shat"
        assert " ".join(y for _, y in one.alignment or () if y) == one.target
    greedy = model.search_options(TransduceOptions(beam_size=1))
    assert greedy.model.settings.search.beam_size == 1  # type: ignore[attr-defined]
    assert greedy.predict(["shat"])[0].target == model.predict(["shat"], TransduceOptions(beam_size=1))[0].target
    assert configs.parse(TransduceConfig, {"model": {"kind": "seq2seq"}}).training.schedule == "plateau"
    transformer = {"model": {"kind": "seq2seq", "network": {"kind": "transformer"}}}
    assert configs.parse(TransduceConfig, transformer).training.warmup_steps == 1000


def test_ensemble_of_different_kinds(words: Path, joint: TransduceTask, tmp_path: Path) -> None:
    network = train(config(words, "seq2seq"), tmp_path / "run")

    def scores(model: TransduceTask, n: int) -> dict[str, float]:
        found = model.predict(["shat"], TransduceOptions(n_best=n))[0].n_best
        return {one.target: one.log_prob for one in found if one.log_prob is not None}

    twice = network.ensemble([network])
    assert scores(twice, 2) == pytest.approx(scores(network, 2))
    assert "and 1 more" in twice.describe(1)[0]
    assert len(twice.networks) == 2
    mixed = joint.ensemble([network, network])
    alone, other, both = scores(joint, 10), scores(network, 10), scores(mixed, 3)
    assert len(both) == 3
    for target, log_prob in both.items():
        parts = [math.exp(found[target]) / 3 if target in found else 0.0 for found in (alone, other, other)]
        assert math.exp(log_prob) == pytest.approx(math.fsum(parts))
    assert list(both.values()) == sorted(both.values(), reverse=True)
    assert mixed.describe(1)[0] == "an ensemble of 3 transducers:"
    with pytest.raises(DataError, match=r"model.kind must be seq2seq if --beam-size is set"):
        mixed.search_options(TransduceOptions(beam_size=3))
    with pytest.raises(DataError, match="this ensemble has other models"):
        network.ensemble([joint]).predict(["shat"], TransduceOptions(beam_size=3))
    rule = train(config(words, "baseline"), tmp_path / "rule")
    with pytest.raises(DataError, match="A baseline without probabilities"):
        joint.ensemble([rule]).predict(["shat"])
    data = joint.config.data.model_copy(update={"source_tokens": "symbols"})
    apart = CountedTransduceTask(joint.config.model_copy(update={"data": data}), joint.model)
    with pytest.raises(DataError, match="Model 2 of the ensemble splits texts into other symbols"):
        joint.ensemble([apart])


def test_joint_models_stop_aligning_when_the_time_is_over(words: Path, tmp_path: Path) -> None:
    train(config(words, training={"max_time": "0.000001s"}), tmp_path / "run")
    log = (tmp_path / "run" / "log.txt").read_text(encoding="utf-8")
    assert log.count("alignment round") == 1
    assert "max_time reached" in log
    resume_run(tmp_path / "run", SilentReporter(), {"max_time": "1h"})
    assert (tmp_path / "run" / "log.txt").read_text(encoding="utf-8").count("alignment round") == 1 + 4


def test_models_of_one_pass_report_that_the_time_was_too_short(words: Path, tmp_path: Path) -> None:
    train(config(words, "baseline", training={"max_time": "0.000001s"}), tmp_path / "run")
    log = (tmp_path / "run" / "log.txt").read_text(encoding="utf-8")
    assert "1e-06 s were too short: a model of kind 'baseline' is made in one pass" in log
