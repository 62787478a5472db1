"""Train, resume, load, predict, evaluate, compare and plot, for every model kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from catena import config as configs
from catena.errors import DataError, FormatError
from catena.metrics.significance import paired_bootstrap
from catena.randomness import Randomness
from catena.tasks.application import PredictOptions, ReadOptions
from catena.tasks.compose.application import ComposeApplication
from catena.tasks.compose.config import ComposeConfig
from catena.tasks.compose.dataset import prepare
from catena.tasks.compose.predictor import ComposePredictor
from catena.tasks.compose.reading import Composition
from catena.tasks.compose.scoring import build_metric, compute_scores
from catena.tasks.compose.task import ComposeTask
from catena.training.report import SilentReporter
from tests.laws.blank_laws import blank_is_answered_by_nothing
from tests.laws.network_laws import the_network_answers
from tests.laws.resume_laws import SEED, killed_anywhere_ends_the_same
from tests.tasks.compose.kitchen import kitchen

TEA = Composition("Honey Cake 7", ("2 cups flour", "honey", "3 large eggs, cut into cubes"))


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kitchen(tmp_path_factory.mktemp("data") / "kitchen.jsonl", 150)


def config(recipes: Path, kind: str = "checklist", **sections: Any) -> ComposeConfig:
    values: dict[str, Any] = {"machine": {"device": "cpu", "threads": 1}, **sections}
    values["data"] = {"train": [str(recipes)], "dev_fraction": 0.1, **sections.get("data", {})}
    small = {"d": 24, "d_embedding": 16} if kind != "checklist" else {"d": 24, "d_embedding": 16, "scale": 0.5}
    values["model"] = {"kind": kind, **small, **sections.get("model", {})}
    values.setdefault("training", {"max_steps": 2, "optimizer": "adam", "learning_rate": 0.01})
    values.setdefault("search", {"kind": "beam", "width": 2, "max_length": 20})
    values.setdefault("evaluation", {"texts": 2})
    values.setdefault("batches", {"batch_size": 16})
    return configs.parse(ComposeConfig, values)


def train(made: ComposeConfig, folder: Path) -> ComposePredictor:
    ComposeApplication().train(made, folder, SilentReporter())
    found = ComposeApplication().load(folder, "cpu")
    assert isinstance(found, ComposePredictor)
    return found


@pytest.fixture(scope="module")
def learned(recipes: Path, tmp_path_factory: pytest.TempPathFactory) -> ComposePredictor:
    """A trained model of the synthetic recipes."""
    training = {"max_steps": 60, "eval_every": 60, "optimizer": "adam", "learning_rate": 0.03}
    made = config(
        recipes,
        training=training,
        model={"d_embedding": 24, "dropout_input": 0.0, "dropout_source": 0.0, "dropout_output": 0.0},
        evaluation={"texts": 0},
        batches={"batch_size": 70},
    )
    return train(made, tmp_path_factory.mktemp("runs") / "learned")


@pytest.mark.parametrize("kind", ["checklist", "attention", "plain"])
def test_every_model_kind_trains_loads_and_predicts(kind: str, recipes: Path, tmp_path: Path) -> None:
    model = train(config(recipes, kind), tmp_path / "run")
    composed = model.predict([TEA, Composition("Soup", ())])
    assert len(composed) == 2
    assert str(composed[0])
    assert kind in model.describe(3)[0]
    assert ComposeApplication().load(tmp_path / "run", "cpu").predict([TEA])[0].texts == composed[0].texts
    if kind == "plain":
        with pytest.raises(DataError, match="A plain model has no checklist"):
            model.sketch(TEA)
    else:
        assert "<svg" in str(model.picture(TEA).svg)


def test_resume_after_kill_gives_the_same_model(recipes: Path, tmp_path: Path) -> None:
    training = {"max_steps": 4, "eval_every": 2, "optimizer": "adam", "learning_rate": 0.01}
    made = config(recipes, training=training)
    data, device = prepare(made), torch.device("cpu")

    def make_task() -> ComposeTask:
        return ComposeApplication().task(made, data, device, Randomness(SEED))

    killed_anywhere_ends_the_same(make_task, made.training, tmp_path, kills=[3])


class TestLearned:
    def test_predict_mentions_the_items(self, learned: ComposePredictor) -> None:
        composed = learned.predict([TEA])[0]
        assert sum(composed.mentioned[0]) >= 2
        assert str(composed).endswith("serve cake.")

    def test_picture_of_checklist(self, learned: ComposePredictor) -> None:
        rows, words, table = learned.looked(TEA)
        assert rows == ["flour", "honey", "eggs"]
        assert words[-1] == "</s>"
        assert table.shape == (3, len(words))
        assert (np.diff(table, axis=1) >= -1e-6).all()
        assert table[:, -1].mean() > 0.5
        sketch = learned.sketch(TEA).splitlines()
        assert sketch[1].startswith("flour |")
        with pytest.raises(DataError, match="has no items"):
            learned.picture(Composition("Soup", ()))

    def test_evaluate_a_file(self, learned: ComposePredictor, recipes: Path) -> None:
        report = learned.evaluate(recipes)
        assert set(report.scores) == {"perplexity", "coverage", "extra", "bleu"}
        assert report.scores["coverage"] > 0.8
        assert report.scores["perplexity"] < 3
        assert report.signatures["coverage"] == "coverage|n=150"
        assert any("reference texts 1.0000" in line for line in report.lines)

    def test_answers_of_two_models_are_compared(self, learned: ComposePredictor, recipes: Path, tmp_path: Path) -> None:
        other = train(config(recipes, "plain"), tmp_path / "plain")
        one, two = (model.answers(recipes, "coverage") for model in (learned, other))
        assert one.right == two.right
        first, second = (one.measure.statistics(a.right, a.given) for a in (one, two))
        found = paired_bootstrap(first, second, one.measure.score, np.random.default_rng(0), resamples=200)
        assert found.interval.low > 0.1
        with pytest.raises(DataError, match="Unknown metric 'accuracy'"):
            learned.answers(recipes, "accuracy")

    def test_write_formats(self, learned: ComposePredictor) -> None:
        composed = learned.predict([TEA], PredictOptions(n_best=3, scores=True))[0]
        assert len(composed.texts) == 3
        lengths = [len(learned.encoding.tokenizer.tokens(text)) + 1 for text in composed.texts]
        ranked = [log_prob / n for log_prob, n in zip(composed.log_probs, lengths, strict=True)]
        assert ranked == sorted(ranked, reverse=True)
        row = json.loads(learned.write(composed, TEA, "jsonl"))
        assert row["goal"] == TEA.goal
        told = row["texts"][0]
        assert sorted(told["mentioned"] + told["left_out"]) == sorted(TEA.items)
        assert [item in told["mentioned"] for item in TEA.items] == list(composed.mentioned[0])
        lines = learned.write(composed, TEA, "tsv").splitlines()
        assert lines[0].split("\t")[1:3] == [TEA.goal, " | ".join(TEA.items)]
        drawn = learned.predict([TEA], PredictOptions(samples=4, seed=1))[0]
        assert len(drawn.texts) == 4
        assert learned.predict([TEA], PredictOptions(samples=4, seed=1))[0].texts == drawn.texts

    def test_predict_stream_samples_each_block_separately(
        self, learned: ComposePredictor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("catena.tasks.compose.predictor.BLOCK", 1)
        first, second, third = learned.predict_stream([TEA] * 3, PredictOptions(samples=6, seed=1))
        assert first.texts == learned.predict([TEA], PredictOptions(samples=6, seed=1))[0].texts
        assert len({first.texts, second.texts, third.texts}) == 3, "18 samples that repeat only with tiny probability"

    def test_read_inputs_of_files_and_lines(self, learned: ComposePredictor, tmp_path: Path) -> None:
        path = tmp_path / "in.tsv"
        path.write_text("Honey Cake\thoney | flour\n\nSoup\trice\n", encoding="utf-8")
        items = list(learned.read_inputs(path))
        assert [item.goal for item in items] == ["Honey Cake", "", "Soup"]
        assert len(list(learned.predict_stream(iter(items)))) == 3
        blank, soup = learned.items_of_lines(iter(["", "Soup\trice"]))
        assert soup.items == ("rice",)
        assert [item.goal for item in learned.items_of_lines(iter(["Title\tIngredients", "Soup\trice"]))] == ["Soup"]
        assert [bool(str(found)) for found in learned.predict([blank, soup, blank])] == [False, True, False]
        assert learned.write(learned.predict([blank])[0], blank, "text") == "", "an answer for every line"
        blank_is_answered_by_nothing(learned, "texts")
        the_network_answers(learned, [soup])
        cut = learned.predict([soup], PredictOptions(max_length=2))[0]
        assert cut.finished == (False,)
        assert json.loads(learned.write(cut, soup, "jsonl"))["texts"][0]["finished"] is False
        assert "cut at --max-length 2, before the end" in learned.remarks(cut)[0]
        assert learned.searching(PredictOptions(max_length=2)).predict([soup])[0].texts == cut.texts
        with pytest.raises(FormatError, match="standard input:2 has 1 tab"):
            list(learned.items_of_lines(iter(["", "Soup"])))
        with pytest.raises(DataError, match="must be jsonl, csv or tsv, got"):
            list(learned.read_inputs(path, ReadOptions(format="conllu")))
        (tmp_path / "no.tsv").write_text("a\tb\t\n", encoding="utf-8")
        with pytest.raises(DataError, match="has no reference texts"):
            learned.evaluate(tmp_path / "no.tsv")


class TestScores:
    def test_metrics_equal_values_by_hand(self, recipes: Path) -> None:
        encoding = prepare(config(recipes)).encoding
        rows = [
            Composition("Cake", ("2 cups flour", "3 large eggs"), "Add the flour and eggs."),
            Composition("Soup", ("rice",), "Add the rice."),
        ]
        texts = ["add the egg to the sugar.", "add the milk and the honey."]
        found = compute_scores(rows, texts, encoding)
        assert found["coverage"] == pytest.approx(1 / 3)
        assert found["extra"] == pytest.approx(3 / 2)
        assert 0 < found["bleu"] < 50
        assert build_metric("coverage", encoding)([Composition("a", (), "b")], ["c"]) == 1
        assert compute_scores(rows, [row.text for row in rows], encoding)["bleu"] == pytest.approx(100)
        with pytest.raises(DataError, match="Unknown metric 'blue'"):
            build_metric("blue", encoding)
