"""Train, resume, load and score, for every model kind and batch order."""

from __future__ import annotations

import json
import math
import shutil
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

from catena import config as configs
from catena.errors import CatenaError, CheckpointError, ConfigError, DataError
from catena.tasks.lm.config import LmConfig
from catena.tasks.neural import NetworkTraining
from catena.tasks.runs import load_task, resume_run, train_run
from catena.tasks.writing import PredictionWriter
from catena.training.report import SilentReporter
from tests.laws.resume_laws import SEED, killed_anywhere_ends_the_same
from tests.tasks.lm.helpers import evaluate_file, prepare_data, prepare_training, train

LINES = ["the cat sat on the mat .", "a dog ran away", "", "the dog sat", "a cat ran to the mat ."] * 8
SMALL: dict[str, dict[str, Any]] = {
    "rnn": {"encoder": {"d": 12, "n_layers": 1}, "embedding": {"d": 8}},
    "lstm": {"encoder": {"d": 12}, "embedding": {"d": 8}},
    "gru": {"encoder": {"d": 12}, "embedding": {"d": 8}},
    "feed-forward": {"encoder": {"d": 12, "context": 3}, "embedding": {"d": 8}},
    "convolution": {"encoder": {"d": 8, "n_layers": 2}, "embedding": {"d": 8}},
    "transformer": {"encoder": {"d": 16, "n_heads": 2, "n_layers": 1, "d_ff": 16}, "embedding": {"d": 16}},
}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


def config(text: Path, kind: str = "lstm", **sections: dict[str, Any]) -> LmConfig:
    values: dict[str, Any] = {
        "machine": {"device": "cpu"},
        "tokenizer": {"kind": "whitespace"},
        "batches": {"batch_size": 4, "length": 6},
        "training": {"max_epochs": 2},
        **sections,
    }
    values["data"] = {"train": [str(text)], "test_fraction": 0.1, **sections.get("data", {})}
    values["model"] = {"kind": kind, **SMALL[kind], **sections.get("model", {})}
    return configs.parse(LmConfig, values)


@pytest.mark.parametrize("kind", SMALL)
def test_every_model_kind_trains_loads_scores_and_steps(text: Path, tmp_path: Path, kind: str) -> None:
    made = config(text, kind)
    task, trained = train(made, tmp_path / "run")
    assert math.isfinite(trained.scores["perplexity"])
    data = prepare_data(made)
    lines = LINES[-len(data.test) :]
    assert data.test.tokens == sum(len(line.split()) + 1 for line in lines)
    held = tmp_path / "test.txt"
    held.write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = evaluate_file(task, held)
    assert result.scores()["perplexity"] == pytest.approx(trained.test_scores["perplexity"], rel=1e-4)
    assert f"n={data.test.tokens}" in result.signatures()["perplexity"]
    assert "context:stream" in result.signatures()["perplexity"]
    going_on = task.continue_(["the cat", "", "a dog ran"])
    log_probs = going_on.stepper.log_probs(going_on.state)
    assert log_probs.shape == (3, len(task.encoding.vocabulary))
    alone = task.continue_(["a dog ran"])
    torch.testing.assert_close(log_probs[2:], alone.stepper.log_probs(alone.state), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("kind", "order"), [("gru", "contiguous"), ("gru", "sentences"), ("transformer", "windows")], ids=str
)
def test_training_overfits_a_small_text_in_any_batch_order(text: Path, tmp_path: Path, kind: str, order: str) -> None:
    made = config(
        text,
        kind,
        model={"dropout_input": 0.0, "dropout_output": 0.0, "encoder": {**SMALL[kind]["encoder"], "dropout": 0.0}},
        batches={"batch_size": 4, "length": 12, "order": order},
        training={"max_epochs": 40, "learning_rate": 0.02, "patience": 0, "eval_every": 1000},
        data={"dev": str(text), "test_fraction": 0.0},
        evaluation={"sample": 10},
    )
    task, _ = train(made, tmp_path / "run")
    perplexity = evaluate_file(task, text).scores()["perplexity"]
    assert perplexity < (2.5 if order == "sentences" else 2.2), (
        "predictable from the previous line, or uniform over five"
    )


@pytest.mark.parametrize("settings", [{}, {"batches": {"batch_size": 3, "length": 4, "vary": True}}], ids=["", "vary"])
def test_resume_after_kill_restores_the_carried_state(text: Path, tmp_path: Path, settings: dict[str, Any]) -> None:
    made = config(text, "lstm", training={"max_epochs": 2, "save_every": 3}, evaluation={"sample": 4}, **settings)
    assert made.carries

    def make() -> NetworkTraining:
        return prepare_training(made, SEED)

    killed_anywhere_ends_the_same(make, made.training, tmp_path, kills=[5, 8, 13])


def test_resumed_run_has_the_scores_of_a_longer_one(text: Path, tmp_path: Path) -> None:
    _, whole = train(config(text, training={"max_epochs": 3}), tmp_path / "whole")
    train(config(text, training={"max_epochs": 1}), tmp_path / "again")
    again = resume_run(tmp_path / "again", SilentReporter(), {"max_epochs": 3})
    assert again.scores == whole.scores
    assert again.test_scores == whole.test_scores


def test_loss_with_carried_state_equals_loss_of_the_whole_text(text: Path) -> None:
    made = config(text, model={"dropout_input": 0.0, "dropout_output": 0.0, "encoder": {"d": 12, "dropout": 0.0}})
    task = prepare_training(made)
    plan = task.epoch(1)
    first, second = plan.batch(0), plan.batch(1)
    task.loss(first)
    carried = task.loss(second).total.item()
    ids = torch.cat((first.ids, second.ids), dim=1)
    model = task.model
    hidden = model.read(ids).hidden[:, first.ids.shape[1] :]
    whole = model.output.loss(hidden.flatten(0, 1), second.targets.flatten()).item()
    assert carried == pytest.approx(whole, rel=1e-5)
    again = task.loss(first).total.item()
    assert again == task.loss(first).total.item(), "an epoch starts from the initial state"


@pytest.mark.parametrize("order", ["contiguous", "sentences"])
def test_loss_includes_activation_penalties(text: Path, order: str) -> None:
    totals = {}
    for name, objective in {"none": {}, "activation": {"activation": 2.0}, "slowness": {"slowness": 3.0}}.items():
        drops = {"dropout_input": 0.0, "dropout_output": 0.0, "encoder": {"d": 12, "dropout": 0.0}}
        made = config(text, model=drops, objective=objective, batches={"order": order, "bucket": 0})
        task = prepare_training(made)
        batch = task.epoch(1).batch(0)
        totals[name] = task.loss(batch).total.item()
    width = batch.ids.shape[1]
    lengths = [width] * len(batch.ids) if batch.lengths is None else batch.lengths.tolist()
    assert (len(set(lengths)) > 1) == (order == "sentences"), "padding must be there to be left out"
    rows = [task.model.read(ids[None, :n]).raw[0] for ids, n in zip(batch.ids, lengths, strict=True)]
    activation = 2.0 * torch.cat(rows).square().mean().item()
    slowness = 3.0 * torch.cat([row[1:] - row[:-1] for row in rows]).square().mean().item()
    assert totals["activation"] - totals["none"] == pytest.approx(activation, rel=1e-3)
    assert totals["slowness"] - totals["none"] == pytest.approx(slowness, rel=1e-3)


@pytest.mark.parametrize("penalty", ["activation", "slowness"])
def test_penalty_with_masked_objective_raises(text: Path, penalty: str) -> None:
    with pytest.raises(ValueError, match=f"objective.kind must be 'next' if objective.{penalty} is set, got 'masked'"):
        config(text, "gru", objective={"kind": "masked", penalty: 1.0}, batches={"order": "sentences"})


@pytest.mark.parametrize(("kind", "order"), [("gru", "sentences"), ("transformer", "windows")])
def test_masked_objective_trains_and_has_no_stepper(text: Path, tmp_path: Path, kind: str, order: str) -> None:
    made = config(
        text,
        kind,
        objective={"kind": "masked"},
        batches={"batch_size": 4, "length": 12, "order": order},
        training={"max_epochs": 12, "learning_rate": 0.01, "eval_every": 20},
        data={"dev": str(text), "test_fraction": 0.0},
    )
    task, trained = train(made, tmp_path / "run")
    with pytest.raises(CatenaError, match=r"has no p.next"):
        task.predict(["a dog"])
    assert set(trained.scores) == {"perplexity", "nats_per_token"}
    assert trained.scores["perplexity"] == pytest.approx(math.exp(trained.scores["nats_per_token"]))
    first, *later = [row["scores"]["perplexity"] for row in _metrics(tmp_path / "run") if "scores" in row]
    assert min(later) < first


def _metrics(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("tokenizer", ["whitespace", "words", "characters", "bytes", "bpe"])
def test_predict_scores_unusual_texts(text: Path, tmp_path: Path, tokenizer: str) -> None:
    size = {"size": 300} if tokenizer == "bpe" else {}
    task, _ = train(config(text, "gru", tokenizer={"kind": tokenizer, **size}), tmp_path / "run")
    texts = [
        "",
        "a",
        "xyzzy qwerty",
        "🙂 👩‍👩‍👧",
        "مرحبا بالعالم",
        "the cat " * 40,
        "\ufeff \t",
        "<s> </s> <unk> <pad>",
    ]
    found = task.predict(texts)
    for one, given in zip(found, texts, strict=True):
        assert one.text == given
        assert len(one.tokens) == len(one.log_probs) >= 1
        assert one.tokens[-1] == "</s>"
        assert math.isfinite(one.perplexity)
        assert one.log_prob < 0
        assert float(str(one)) == pytest.approx(one.log_prob, abs=1e-4)
        for format in ("text", "tsv", "jsonl"):
            (line,) = PredictionWriter(format).lines(one)
            assert "\n" not in line
    alone = [task.predict([given])[0].log_prob for given in texts]
    np.testing.assert_allclose([one.log_prob for one in found], alone, rtol=1e-4)
    if tokenizer in ("bytes", "bpe"):
        assert all(one.unknown == 0 for one in found)
        assert not any("Ġ" in token for one in found for token in one.tokens), "marks of byte-level pieces"
    with pytest.raises(DataError, match="predict must get a list, got one text: 'a dog'"):
        task.predict("a dog")
    with pytest.raises(DataError, match="a text must be a string, got int"):
        task.predict([3])


def test_predict_long_text_is_scored_in_pieces(text: Path, tmp_path: Path) -> None:
    for kind in ("lstm", "transformer"):
        task, _ = train(config(text, kind), tmp_path / kind)
        long = "the cat sat " * 900
        (found,) = task.predict([long])
        assert len(found.log_probs) == 2701
        assert math.isfinite(found.log_prob)
        if kind == "lstm":
            ids = torch.tensor([[*task.encoding.ids(long), task.encoding.end]])
            whole = task.stepper.token_log_probs(ids, torch.tensor([2701]))
            assert found.log_prob == pytest.approx(whole.sum().item(), rel=1e-4)


def test_results_of_two_models_are_paired_by_line(text: Path, tmp_path: Path) -> None:
    tasks = [train(config(text, kind), tmp_path / kind)[0] for kind in ("lstm", "transformer")]
    results = [evaluate_file(task, text) for task in tasks]
    assert results[0].paired("perplexity").references == results[1].paired("perplexity").references
    for result in results:
        for name in ("perplexity", "nats_per_token", "bits_per_character", "bits_per_byte"):
            paired = result.paired(name)
            value = paired.metric(paired.references, paired.predictions)
            assert float(value) == pytest.approx(result.scores()[name], rel=1e-5), name
            assert not paired.metric.higher_is_better
    with pytest.raises(ConfigError, match=r"metric must be one of perplexity, .*, got 'accuracy'"):
        results[0].paired("accuracy")
    with pytest.raises(ConfigError, match=r"metric must be one of perplexity, .*, got 'accuracy'"):
        tasks[0].find_metric("accuracy")
    assert "a language model of kind lstm over whitespace" in tasks[0].describe(3)[0]


@pytest.mark.parametrize("unit", ["line", "file"])
def test_ngram_model_trains_and_scores_the_same_tokens(text: Path, tmp_path: Path, unit: str) -> None:
    tokenizer = {"kind": "characters" if unit == "file" else "whitespace"}
    found = {}
    for kind, model in {"ngram": {"order": 3}, "lstm": SMALL["lstm"]}.items():
        values = {
            "machine": {"device": "cpu"},
            "tokenizer": tokenizer,
            "data": {"train": [str(text)], "test_fraction": 0.1, "unit": unit},
            "model": {"kind": kind, **model},
            "batches": {"batch_size": 4, "length": 6},
            "training": {"max_epochs": 1},
        }
        task, trained = train(configs.parse(LmConfig, values), tmp_path / kind)
        found[kind] = evaluate_file(task, text)
        assert set(trained.test_scores) == set(found[kind].scores())
        (scored,) = task.predict(["the cat sat"])
        going_on = task.continue_(["the cat sat"])
        end = going_on.stepper.log_probs(going_on.state)[0, going_on.stepper.end]
        assert scored.log_probs[-1] == pytest.approx(end.item(), abs=1e-4)
    n = {name: result.signatures()["perplexity"].rpartition("n=")[2] for name, result in found.items()}
    assert n["ngram"] == n["lstm"]
    assert found["ngram"].scores()["perplexity"] < 5 < found["lstm"].scores()["perplexity"]
    assert resume_run(tmp_path / "ngram", SilentReporter()).scores["perplexity"] > 1
    with pytest.raises(CheckpointError, match=r"max_epochs must be left out for a model of kind 'ngram'"):
        resume_run(tmp_path / "ngram", SilentReporter(), {"max_epochs": 3})


def test_fine_tuning_starts_from_old_weights_and_vocabulary(text: Path, tmp_path: Path) -> None:
    train(config(text), tmp_path / "old")
    other = tmp_path / "other.txt"
    other.write_text("the zebra sat\n" * 30, encoding="utf-8")
    train_run(config(other), tmp_path / "new", SilentReporter(), init_from=tmp_path / "old")
    new: Any = load_task(tmp_path / "new", "cpu")
    assert "zebra" not in new.encoding.vocabulary
    assert "cat" in new.encoding.vocabulary
    for kept in ("last", "best"):
        (tmp_path / "new" / kept).unlink()
    shutil.rmtree(tmp_path / "new" / "checkpoints")
    (tmp_path / "new" / "checkpoints").mkdir()  # as if it had been killed before its first checkpoint
    with pytest.raises(CheckpointError, match=r"started from the weights of .*old and stopped before it saved them"):
        resume_run(tmp_path / "new", SilentReporter())
    with pytest.raises(CheckpointError, match="the model must have the options of the one in"):
        train_run(config(other, "gru"), tmp_path / "x", SilentReporter(), init_from=tmp_path / "old")
    one_way = {"encoder": {"d": 12, "bidirectional": False}}
    masked = config(other, model=one_way, objective={"kind": "masked"}, batches={"order": "sentences"})
    with pytest.raises(CheckpointError, match=r"objective\.kind must be 'next', the objective of the model"):
        train_run(masked, tmp_path / "x", SilentReporter(), init_from=tmp_path / "old")
    ngram = configs.parse(LmConfig, {"data": {"train": [str(other)]}, "model": {"kind": "ngram"}})
    with pytest.raises(CheckpointError, match="the model must have the options of the one in"):
        train_run(ngram, tmp_path / "x", SilentReporter(), init_from=tmp_path / "old")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"data": {"unit": "file"}}, "tokenizer.kind must keep line breaks if data.unit = 'file', got 'words'"),
        ({"data": {"dev_fraction": 0.6, "test_fraction": 0.5}}, "must be less than 1, got 0.6"),
        ({"data": {"test": "t", "test_fraction": 0.5}}, "Remove one of them"),
        ({"data": {"folds": 3}}, "data.folds"),
        ({"model": {"kind": "lstm", "encoder": {"bidirectional": True}}}, "bidirectional must be false"),
        ({"model": {"kind": "convolution", "encoder": {"kind": "convolution"}}}, "padding must be 'causal'"),
        (
            {"model": {"kind": "transformer", "encoder": {"causal": False}}},
            "must be true if objective.kind = 'next', got false",
        ),
        ({"objective": {"kind": "masked"}, "model": {"kind": "feed-forward"}}, "must be lstm, gru, rnn or transformer"),
        ({"objective": {"kind": "masked"}, "batches": {"order": "contiguous"}}, "must be 'windows' or 'sentences'"),
        ({"training": {"metric": "accuracy"}}, "Unknown training.metric 'accuracy' of this model"),
        (
            {"model": {"kind": "transformer", "encoder": {"positions": "learned", "max_length": 64}}},
            "max_length must be at least 65, the length of a sequence, .* got 64",
        ),
    ],
)
def test_config_with_inconsistent_options_raises(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        configs.parse(LmConfig, values)


@pytest.mark.parametrize("kind", [None, "rnn", "gru", "transformer"])
def test_masked_objective_implies_bidirectional_encoder_unless_set(kind: str | None) -> None:
    named = {} if kind is None else {"kind": kind}
    plain = configs.parse(LmConfig, {"model": named})
    masked = configs.parse(LmConfig, {"model": named, "objective": {"kind": "masked"}})
    one_way = {"causal": True} if kind == "transformer" else {"bidirectional": False}
    other = {"causal": False} if kind == "transformer" else {"bidirectional": True}
    assert plain.model.encoder == masked.model.encoder.model_copy(update=one_way)
    assert masked.model.encoder == plain.model.encoder.model_copy(update=other)
    values = {"model": {**named, "encoder": one_way}, "objective": {"kind": "masked"}}
    if kind == "transformer":
        with pytest.raises(ConfigError, match=r"causal must be false if objective.kind = 'masked', got true"):
            configs.parse(LmConfig, values)
    else:
        assert configs.parse(LmConfig, values).model.encoder == plain.model.encoder


def test_config_imports_no_torch() -> None:
    import subprocess
    import sys

    code = "import sys, catena.tasks.lm.config as s; s.LmConfig(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unsmoothed_ngram_has_infinite_perplexity_and_a_complete_run(text: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.txt"
    new.write_text("mat the cat\n", encoding="utf-8")
    values = {
        "machine": {"device": "cpu"},
        "tokenizer": {"kind": "whitespace"},
        "data": {"train": [str(text)], "dev": str(new)},
        "model": {"kind": "ngram", "order": 2, "estimator": "maximum-likelihood"},
    }
    made = configs.parse(LmConfig, values)
    model, trained = train(made, tmp_path / "run")
    assert trained.scores["perplexity"] == math.inf
    (seen, unseen) = model.predict(["a dog ran away", "mat the cat"])
    # "a" begins 2 of 5 lines, "dog" follows 1 of 2 "a", "ran" 1 of 2 "dog", "away" 1 of 2 "ran", and ends its line.
    assert seen.log_prob == pytest.approx(math.log(2 / 5 / 8), abs=1e-6)
    assert unseen.log_prob == -math.inf
    (line,) = PredictionWriter("jsonl").lines(unseen)
    row = json.loads(line, parse_constant=pytest.fail)
    assert row["log_prob"] is None
    assert row["log_probs"][0] is None
    with pytest.raises(DataError, match=r"3 of 4 tokens have probability 0 under this model, .* perplexity is inf"):
        evaluate_file(model, new).paired("perplexity")


def test_estimator_options_reach_the_estimator_functions(text: Path, tmp_path: Path) -> None:
    from catena.lm.ngram.counts import MOST_ORDER
    from catena.lm.ngram.estimators import ESTIMATORS
    from catena.tasks.lm.config import EstimatorName, NgramConfig

    assert set(get_args(EstimatorName)) == set(ESTIMATORS)

    def log_prob(line: str, **options: Any) -> float:
        model = {"kind": "ngram", "order": 1, **options}
        data = {"train": [str(text)], "dev": str(text)}
        values = {"machine": {"device": "cpu"}, "tokenizer": {"kind": "whitespace"}, "data": data, "model": model}
        folder = tmp_path / "-".join(map(str, options.values()))
        task, _ = train(configs.parse(LmConfig, values), folder)
        return task.predict([line])[0].log_probs[0]

    counts = Counter(" ".join(LINES).split())
    n, v = (
        sum(counts.values()) + len(LINES),
        len(counts) + 2,
    )  # ends are counted; <unk> and the end may be predicted too
    expected = math.log((counts["cat"] + 0.5) / (n + 0.5 * v))
    assert log_prob("cat", estimator="add-k", k=0.5) == pytest.approx(expected, abs=1e-6)
    assert log_prob("zebra", estimator="stupid-backoff", backoff=0.1) == pytest.approx(math.log(0.1 / v), abs=1e-6)
    left = 0.25 * (len(counts) + 1) / n  # what a discount of 0.25 takes from all words and the end
    expected = math.log((counts["cat"] - 0.25) / n + left / v)
    assert log_prob("cat", estimator="absolute-discounting", discount=0.25) == pytest.approx(expected, abs=1e-6)
    for prune in [(1,), (0, 2, 1), (0, 0, 0, 1)]:
        with pytest.raises(ValueError, match=r"at most model\.order = 3 non-decreasing counts that start with 0, got"):
            NgramConfig(order=3, prune=prune)
    assert NgramConfig(order=3, prune=(0, 1, 1)).prune == (0, 1, 1)
    with pytest.raises(ValueError, match="less than or equal to 250"):
        NgramConfig(order=MOST_ORDER + 1)
    assert NgramConfig(order=MOST_ORDER).order == MOST_ORDER
    with pytest.raises(ValueError, match=r"model\.estimator must be 'kneser-ney' or .* if model\.discount is set"):
        NgramConfig(discount=0.5)
