"""Train, resume, load, predict, evaluate, compare and plot, for every model kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catena import config as configs
from catena.data.reading import ReadCounter
from catena.errors import ConfigError, DataError
from catena.metrics.significance import paired_bootstrap
from catena.randomness import Randomness
from catena.tasks.base import Origin
from catena.tasks.compose.config import ComposeConfig, ComposeOptions
from catena.tasks.compose.data import Composition, fit_encoding, read_compositions
from catena.tasks.compose.estimator import Composer
from catena.tasks.compose.predict import ComposeEvaluation, find_metric
from catena.tasks.compose.task import ComposeTask
from catena.tasks.neural import NetworkTraining
from catena.tasks.runs import load_task, train_run
from catena.tasks.sources import Sources
from catena.tasks.writing import PredictionWriter
from catena.training.report import SilentReporter
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
    values.setdefault("search", {"kind": "beam", "beam_size": 2, "max_length": 20})
    values.setdefault("evaluation", {"texts": 2})
    values.setdefault("batches", {"batch_size": 16})
    return configs.parse(ComposeConfig, values)


def train(made: ComposeConfig, folder: Path) -> ComposeTask:
    train_run(made, folder, SilentReporter())
    task = load_task(folder, "cpu")
    assert isinstance(task, ComposeTask)
    return task


def examples_of(model: ComposeTask, path: Path) -> list[Composition]:
    return list(model.read(model.config, path, ReadCounter()))


@pytest.fixture(scope="module")
def learned(recipes: Path, tmp_path_factory: pytest.TempPathFactory) -> ComposeTask:
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
    predictions = model.predict([TEA, Composition("Soup", ())])
    assert len(predictions) == 2
    assert str(predictions[0])
    assert kind in model.describe(3)[0]
    assert load_task(tmp_path / "run", "cpu").predict([TEA])[0].text == predictions[0].text
    if kind == "plain":
        with pytest.raises(DataError, match="A plain model has no checklist"):
            model.draw_text(TEA, ComposeOptions())
    else:
        assert "<svg" in str(model.draw(TEA, ComposeOptions()).svg)


def test_resume_after_kill_gives_the_same_model(recipes: Path, tmp_path: Path) -> None:
    training = {"max_steps": 4, "eval_every": 2, "optimizer": "adam", "learning_rate": 0.01}
    made = config(recipes, training=training)

    def make_task() -> NetworkTraining:
        return ComposeTask.prepare(made, Sources(ComposeTask, made), Origin(Randomness(SEED)))

    killed_anywhere_ends_the_same(make_task, made.training, tmp_path, kills=[3])


class TestLearned:
    def test_predict_mentions_the_items(self, learned: ComposeTask) -> None:
        prediction = learned.predict([TEA])[0]
        assert sum(prediction.mentioned) >= 2
        assert str(prediction).endswith("serve cake.")

    def test_picture_of_checklist(self, learned: ComposeTask) -> None:
        rows, words, table = learned.item_weights(TEA, ComposeOptions())
        assert rows == ["flour", "honey", "eggs"]
        assert words[-1] == "</s>"
        assert table.shape == (3, len(words))
        assert (np.diff(table, axis=1) >= -1e-6).all()
        assert table[:, -1].mean() > 0.5
        lines = learned.draw_text(TEA, ComposeOptions()).splitlines()
        assert lines[1].startswith("flour |")
        with pytest.raises(DataError, match="has no items"):
            learned.draw(Composition("Soup", ()), ComposeOptions())

    def test_evaluate_a_file(self, learned: ComposeTask, recipes: Path) -> None:
        result = learned.evaluate(examples_of(learned, recipes))
        scores = result.scores()
        assert set(scores) == {"perplexity", "coverage", "extra", "bleu"}
        assert scores["coverage"] > 0.8
        assert scores["perplexity"] < 3
        assert result.signatures()["coverage"] == "coverage|n=150"
        assert any("reference texts: coverage 1.0000" in line for line in result.lines())

    def test_perplexity_equals_the_sum_over_single_texts(self, learned: ComposeTask, recipes: Path) -> None:
        examples = examples_of(learned, recipes)[:9]
        result = learned.evaluate(examples)
        assert isinstance(result, ComposeEvaluation)
        singles = [learned.evaluate([example]) for example in examples]
        assert result.log_probs == pytest.approx([float(one.log_probs[0]) for one in singles], rel=1e-5)
        nats = -sum(float(one.log_probs[0]) for one in singles)
        tokens = sum(len(learned.encoding.tokenizer.tokens(example.text)) + 1 for example in examples)
        assert result.scores()["perplexity"] == pytest.approx(np.exp(nats / tokens), rel=1e-5)
        assert result.paired("perplexity").unknown == 0
        other = Composition("Cake", ("flour",), "Add zebra.")
        assert learned.evaluate([other]).paired("perplexity").unknown == pytest.approx(1 / 4)

    def test_dev_generates_only_the_first_texts(self, learned: ComposeTask, recipes: Path) -> None:
        rows = learned.encode(examples_of(learned, recipes)[:5])
        assert list(learned.evaluate_dev(rows).scores()) == ["perplexity"]
        config = learned.config.model_copy(
            update={"evaluation": learned.config.evaluation.model_copy(update={"texts": 2})}
        )
        result = ComposeTask(config, learned.encoding, learned.model).evaluate_dev(rows)
        assert len(result.texts) == 2
        assert result.signatures()["perplexity"] == "perplexity|n=5"
        assert result.signatures()["coverage"] == "coverage|n=2"
        assert len(learned.show(rows, result)) == 2

    def test_two_models_are_compared(self, learned: ComposeTask, recipes: Path, tmp_path: Path) -> None:
        other = train(config(recipes, "plain"), tmp_path / "plain")
        examples = examples_of(learned, recipes)
        one, two = (model.evaluate(examples).paired("coverage") for model in (learned, other))
        assert one.references == two.references
        first, second = (one.metric.statistics(side.references, side.predictions) for side in (one, two))
        test = paired_bootstrap(first, second, one.metric.score, np.random.default_rng(0), resamples=200)
        assert test.interval.low > 0.1
        with pytest.raises(ConfigError, match=r"metric must be one of .*, got 'accuracy'"):
            learned.evaluate(examples[:2]).paired("accuracy")

    def test_predictions_are_written_in_every_format(self, learned: ComposeTask) -> None:
        prediction = learned.predict([TEA], ComposeOptions(n_best=3, scores=True))[0]
        assert len(prediction.n_best) == 3
        lengths = [len(learned.encoding.tokenizer.tokens(str(one))) + 1 for one in prediction.n_best]
        ranked = [one.log_prob / n for one, n in zip(prediction.n_best, lengths, strict=True)]
        assert ranked == sorted(ranked, reverse=True)
        row = prediction.to_dict()
        assert list(row) == [
            "goal", "items", "text", "log_prob", "truncated", "mentioned", "left_out", "n_best"]  # fmt: skip
        assert row["goal"] == TEA.goal
        first = row["n_best"][0]
        assert sorted(first["mentioned"] + first["left_out"]) == sorted(TEA.items)
        assert [item in first["mentioned"] for item in TEA.items] == list(prediction.mentioned)
        lines = list(PredictionWriter("tsv").lines(prediction))
        assert lines[0].split("\t") == [TEA.goal, " | ".join(TEA.items), str(prediction), f"{prediction.log_prob:.4f}"]
        assert prediction.to_text("text").splitlines() == [str(one) for one in prediction.n_best]
        sampled = learned.predict([TEA], ComposeOptions(samples=4, seed=1))[0]
        assert len(sampled.n_best) == 4
        assert learned.predict([TEA], ComposeOptions(samples=4, seed=1))[0] == sampled

    def test_predict_stream_samples_each_block_separately(
        self, learned: ComposeTask, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ComposeTask, "stream_block", 1)
        options = ComposeOptions(samples=6, seed=1)
        first, second, third = (tuple(map(str, one.n_best)) for one in learned.predict_stream([TEA] * 3, options))
        assert first == tuple(map(str, learned.predict([TEA], options)[0].n_best))
        assert len({first, second, third}) == 3, "18 samples that repeat only with tiny probability"

    def test_inputs_of_files_and_blank_ones(self, learned: ComposeTask, tmp_path: Path) -> None:
        path = tmp_path / "in.tsv"
        path.write_text("Honey Cake\thoney | flour\n\nSoup\trice\n", encoding="utf-8")
        examples = list(learned.read_inputs(path, ReadCounter()))
        assert [example.goal for example in examples] == ["Honey Cake", "", "Soup"]
        predictions = learned.predict(examples)
        assert [bool(str(one)) for one in predictions] == [True, False, True]
        path.write_text("Title\tIngredients\nSoup\trice\n", encoding="utf-8")
        assert [example.goal for example in learned.read_inputs(path, ReadCounter())] == ["Soup"]
        the_network_answers(learned, [("Soup", ["rice"])])

    def test_blank_input_has_no_text(self, learned: ComposeTask) -> None:
        for options in (ComposeOptions(scores=True), ComposeOptions(n_best=2, scores=True)):
            prediction = learned.predict(["  "], options)[0]
            assert str(prediction) == prediction.to_text("text") == ""
            assert not learned.warnings(prediction, options)
            assert not any(prediction.to_dict().values())
            assert [line.strip() for line in PredictionWriter("tsv").lines(prediction)] == [""]

    def test_truncated_texts_are_marked(self, learned: ComposeTask) -> None:
        options = ComposeOptions(max_length=2)
        prediction = learned.predict([("Soup", ["rice"])], options)[0]
        assert prediction.truncated
        assert prediction.to_dict()["truncated"] is True
        assert "cut at --max-length 2, before the end" in learned.warnings(prediction, options)[0]
        assert learned.search_options(options).predict([("Soup", ["rice"])])[0].text == prediction.text


class TestScores:
    def test_metrics_equal_values_by_hand(self, recipes: Path) -> None:
        made = config(recipes)
        encoding = fit_encoding(made, list(read_compositions(made.data, recipes, ReadCounter())))
        rows = [
            Composition("Cake", ("2 cups flour", "3 large eggs"), "Add the flour and eggs."),
            Composition("Soup", ("rice",), "Add the rice."),
        ]

        def scores(texts: list[str]) -> dict[str, float]:
            log_probs, n_tokens = np.array([-6.0, -2.0]), np.array([6, 2])
            return ComposeEvaluation(encoding, rows, log_probs, n_tokens, np.zeros(2), texts).scores()

        by_hand = scores(["add the egg to the sugar.", "add the milk and the honey."])
        assert by_hand["perplexity"] == pytest.approx(np.e)
        assert by_hand["coverage"] == pytest.approx(1 / 3)
        assert by_hand["extra"] == pytest.approx(3 / 2)
        assert 0 < by_hand["bleu"] < 50
        assert find_metric("coverage", encoding)([Composition("a", (), "b")], ["c"]) == 1
        assert scores([row.text for row in rows])["bleu"] == pytest.approx(100)
        assert [find_metric(name, encoding).higher_is_better for name in ("perplexity", "coverage", "extra")] == [
            False, True, False]  # fmt: skip
        with pytest.raises(DataError, match="Unknown metric 'blue'"):
            find_metric("blue", encoding)


def test_composer_fits_and_saves(tmp_path: Path) -> None:
    inputs = [("Tea", ["1 cup water", "tea"]), ("Rice 2", ["rice"]), {"title": "Soup", "items": ["rice", "salt"]}] * 4
    texts = ["Boil water. Add tea.", "Boil rice.", "Boil rice. Add salt."] * 4
    composer = Composer(max_steps=2, dev_fraction=0.3, d=8, d_embedding=8, threads=1, min_count=1).fit(inputs, texts)
    composer.save(tmp_path / "model")
    (prediction,) = composer.predict([("Tea", ["water"])], max_length=5)
    assert Composer.load(tmp_path / "model").predict([("Tea", ["water"])], max_length=5) == [prediction]
    assert composer.evaluate(inputs[:3], texts[:3]).scores()["perplexity"] > 1
    with pytest.raises(DataError, match=r"y must have one text per input \(12\), got 1"):
        composer.fit(inputs, ["a"])
    with pytest.raises(DataError, match="text 0 must be a string that is not blank"):
        composer.fit([("Tea", [])], [" "])
