"""Logistic regression on TF-IDF features: its values, its optimum, the choice of the penalty, and its runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catena import TextClassifier
from catena.data.reading import LONGEST_DOCUMENT
from catena.data.samples.corpus import load_sample, sample_path
from catena.errors import CheckpointError, ConfigError
from catena.tasks.classify.linear import tfidf
from catena.tasks.classify.linear.tfidf import (
    PenalizedLoss,
    WeightedRows,
    choose_penalty,
    class_ratios,
    losses_and_gradients,
)
from catena.tasks.runs import load_task, resume_run, train_run
from catena.training.report import SilentReporter
from tests.tasks.classify.helpers import config_of, task_of

TEXTS = ["good film", "bad film", "a very good film", "bad plot", "plot", "good good"]


def config(**values: Any) -> Any:
    files = {"train": [str(sample_path("assistant/train.tsv"))], "dev": str(sample_path("assistant/dev.tsv"))}
    model = {"kind": "tfidf", **values.pop("model", {})}
    return config_of({"data": files, "model": model, **values})


def sparse(x: np.ndarray) -> WeightedRows:
    rows, ids = np.nonzero(x)
    first = np.searchsorted(rows, np.arange(len(x) + 1)).astype(np.int64)
    return WeightedRows(ids.astype(np.int32), first, x[rows, ids].astype(np.float32), x.shape[1])


def problem(n: int = 80, d: int = 7, k: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = ((rng.random((n, d)) < 0.4) * rng.integers(1, 4, (n, d))).astype(np.float64)
    y = np.argmax(x @ rng.normal(0, 1, (d, k)) + rng.gumbel(size=(n, k)), 1)
    return x, y


def test_class_ratios_equal_their_definition() -> None:
    x, _ = problem(n=30)
    targets = np.random.default_rng(1).random((30, 3))
    expected = []
    for f in range(7):
        logs = []
        for q in range(3):
            inside = [sum(x[i, g] * targets[i, q] for i in range(30)) + 0.03 for g in range(7)]
            outside = [sum(x[i, g] * (targets[i].sum() - targets[i, q]) for i in range(30)) + 0.03 for g in range(7)]
            logs.append(math.log(inside[f] / sum(inside)) - math.log(outside[f] / sum(outside)))
        expected.append(math.sqrt(sum(log**2 for log in logs) / 3))
    found = class_ratios(sparse(x), targets)
    np.testing.assert_allclose(found, np.array(expected) / np.mean(expected), rtol=1e-5)


def test_class_ratio_prefers_words_of_one_class() -> None:
    texts = [*["good film", "bad film", "good plot", "bad plot"] * 3, "film"]
    ratios = {}
    for power in (0.0, 0.5, 1.0):
        model = {"kind": "tfidf", "features": {"ngrams": 1, "characters": 0}, "class_ratio": power}
        training = task_of(config_of({"model": model}), texts, [*"pnpn" * 3, "p"])
        names = [training.encoding.texts.name(i) for i in range(4)]
        values = dict(zip(names, training.task().values.idf, strict=True))
        ratios[power] = values["good"] / values["film"]
    plain = ratios[0.0]
    assert plain == pytest.approx((1 + math.log(14 / 7)) / (1 + math.log(14 / 8)))
    assert ratios[0.5] / plain > 3
    assert ratios[1.0] / plain == pytest.approx((ratios[0.5] / plain) ** 2, rel=1e-3)


@pytest.mark.parametrize(("too_long", "n_used"), [("drop", 19), ("cut", 20)])
def test_long_documents_are_read_and_files_in_one_line_dropped(too_long: str, n_used: int, tmp_path: Path) -> None:
    lengths = {4: 2000, 5: LONGEST_DOCUMENT, 6: LONGEST_DOCUMENT + 1}
    rows = [f"{'ab'[i % 2]}\t" + f"word{i} " * lengths.get(i, 3) for i in range(20)]
    (tmp_path / "x.tsv").write_text("\n".join(rows) + "\n")
    data = {"train": [str(tmp_path / "x.tsv")], "dev_fraction": 0.1, "too_long": too_long}
    config = config_of({"data": data, "model": {"kind": "tfidf"}})
    train_run(config, tmp_path / "run", SilentReporter())
    dropped = tmp_path / "run" / "dropped.tsv"
    assert 20 - n_used == ("longer than max_length=10000" in dropped.read_text() if dropped.exists() else 0)


def test_values_are_tfidf_with_tokens_and_characters_of_length_one() -> None:
    settings = {"ngrams": 1, "characters": 3, "characters_from": 3, "values": "log"}
    training = task_of(config_of({"model": {"kind": "tfidf", "features": settings}}), TEXTS, list("pnpnop"))
    encoding = training.encoding.texts
    rows = training.task().values.weigh(encoding.encode(["good good plot zzz"]))
    found = {encoding.name(int(i)): float(value) for i, value in zip(rows.ids, rows.values, strict=True)}

    def idf(n: int) -> float:
        return 1 + math.log(7 / (1 + n))

    tokens = {"good": math.log(3) * idf(3), "plot": math.log(2) * idf(2)}
    length = math.hypot(*tokens.values())
    for name, value in tokens.items():
        assert found[name] == pytest.approx(value / length, rel=1e-5)
    characters = [value for name, value in found.items() if name not in tokens]
    assert len(characters) == 8  # <go goo ood od> and <pl plo lot ot>
    assert math.hypot(*characters) == pytest.approx(1.0, rel=1e-5)
    assert found["…ood…"] / found["…lot…"] == pytest.approx(tokens["good"] / tokens["plot"], rel=1e-5)


@pytest.mark.parametrize("is_softmax", [True, False])
def test_gradient_equals_differences_of_the_loss(is_softmax: bool) -> None:
    x, y = problem(20, 4)
    rng = np.random.default_rng(1)
    loss = PenalizedLoss(sparse(x), np.eye(3)[y], rng.uniform(0.5, 2, 20), 0.7, is_softmax)
    at = rng.normal(0, 0.5, 15)
    gradient, h = loss(at)[1], 1e-5
    assert gradient.shape == (15,)
    for j, step in enumerate(np.eye(15) * h):
        assert gradient[j] == pytest.approx((loss(at + step)[0] - loss(at - step)[0]) / (2 * h), abs=1e-4)


def test_losses_of_large_scores_are_finite() -> None:
    scores, targets = np.array([[1e4, -1e4]]), np.array([[0.0, 1.0]])
    for is_softmax, wanted in ((True, 2e4), (False, 2e4)):
        losses, gradients = losses_and_gradients(scores, targets, is_softmax)
        assert losses[0] == pytest.approx(wanted)
        assert gradients[0] == pytest.approx([1.0, -1.0])


@pytest.mark.parametrize("k", [2, 3])
def test_optimum_equals_scikit_learn(k: int) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    x, y = problem(k=k)
    peer = linear_model.LogisticRegression(C=2.0, tol=1e-8, max_iter=5000).fit(x, y)
    targets = np.eye(k)[y] if k > 2 else y[:, None].astype(float)
    loss = PenalizedLoss(sparse(x), targets, np.ones(len(y)), 0.5, k > 2)
    weights, bias = loss.split(loss.minimize())
    assert np.abs(weights - peer.coef_.T).max() < 0.02
    scores = x @ weights + bias
    scores = scores if k > 2 else np.concatenate((-scores / 2, scores / 2), 1)
    found = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    assert np.abs(found - peer.predict_proba(x)).max() < 0.01


def test_penalty_is_chosen_by_held_out_folds() -> None:
    """Labels that no feature explains need a larger penalty than those that a feature decides."""
    rng = np.random.default_rng(0)
    x = (rng.random((200, 40)) < 0.3).astype(float)
    noisy = np.where(rng.random(200) < 0.75, x[:, 0], rng.random(200) < 0.5).astype(int)
    scores = []
    for y in (x[:, 0].astype(int), noisy):
        loss = PenalizedLoss(sparse(x), y[:, None].astype(float), np.ones(200), 0.0, False)
        scores.append(choose_penalty(loss, y, 5, 0))
    clear, hard = scores
    assert min(clear.values()) > 0.99
    assert hard[3.0] > hard[0.03]


def test_penalty_is_chosen_on_texts_that_were_not_learned() -> None:
    n = 60
    loss = PenalizedLoss(sparse(np.eye(n)), np.eye(3)[np.arange(n) % 3], np.ones(n), 0.0, True)
    scores = choose_penalty(loss, np.arange(n) % 3, 5, 0)  # no feature occurs twice, so that others teach nothing
    assert max(scores.values()) <= 0.5


def test_first_fold_chooses_if_five_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = problem(100)
    loss = PenalizedLoss(sparse(x), np.eye(3)[y], np.ones(100), 0.0, True)
    assert any(
        score * 20 % 1 for score in choose_penalty(loss, y, 5, 0).values()
    )  # means of five accuracies on 20 texts
    monkeypatch.setattr(tfidf, "_MOST_PRODUCTS", 0)
    assert not any(round(score * 20, 6) % 1 for score in choose_penalty(loss, y, 5, 0).values())


def test_sample_is_learned_and_the_choice_is_used() -> None:
    chosen, fixed = (TextClassifier("tfidf", penalty=penalty) for penalty in (None, 1e4))
    train, test = load_sample("train"), load_sample("test")
    texts, labels = [e.text for e in train], [e.labels[0] for e in train]
    scores = [model.fit(texts, labels).score([e.text for e in test], [e.labels[0] for e in test])
              for model in (chosen, fixed)]  # fmt: skip
    assert scores[0] > 0.85
    assert scores[0] > scores[1]


@pytest.mark.parametrize(
    "values",
    [
        {"model": {"features": {"buckets": 2**14, "characters": 4, "values": "binary"}}},
        {"model": {"penalty": 0.5}, "loss": {"class_weights": "balanced"}},
        {"model": {"penalty": 0.5}, "loss": {"label_smoothing": 0.1}},
        {"model": {"folds": 2}, "tokenizer": {"kind": "characters"}},
    ],
    ids=str,
)
def test_every_option_learns_the_sample(values: dict[str, Any], tmp_path: Path) -> None:
    train_run(config(**values), tmp_path / "run", SilentReporter())
    assert load_task(tmp_path / "run").evaluate(load_sample("test")).scores()["accuracy"] > 0.6  # guessing: 1 in 15


def test_long_texts_are_read_to_their_end() -> None:
    texts = [f"{'so ' * 1500}{word}" for word in ("good", "bad")] * 20
    model = TextClassifier("tfidf", penalty=0.01).fit(texts, ["p", "n"] * 20)
    assert list(model.predict(texts[:2])) == ["p", "n"]


def test_several_labels_are_learned() -> None:
    texts = [f"{'rain ' * a}{'sun ' * b}today" for a in (0, 1) for b in (0, 1)] * 30
    labels = [["wet"] * a + ["dry"] * b for a in (0, 1) for b in (0, 1)] * 30
    model = TextClassifier("tfidf", multilabel=True).fit(texts, labels)
    assert [set(found) for found in model.predict(texts[:4])] == [set(some) for some in labels[:4]]


def test_few_texts_get_the_probabilities_of_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train_run(config(model={"penalty": 1.0}), tmp_path / "run", SilentReporter())
    texts = [example.text for example in load_sample("test")] + ["", "zzz"]
    many = load_task(tmp_path / "run").log_probabilities(texts)  # type: ignore[attr-defined]
    for name in ("features", "tfidf"):
        monkeypatch.setattr(f"catena.tasks.classify.linear.{name}.needs_kernels", lambda n: False)
    few = [load_task(tmp_path / "run").log_probabilities([text])[0] for text in texts]  # type: ignore[attr-defined]
    assert np.allclose(few, many, atol=1e-6)


def test_rare_features_are_left_out_if_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tfidf, "_MOST_WEIGHTS", 12)
    training = task_of(config_of({"model": {"kind": "tfidf"}}), TEXTS, list("pnpnop"))
    assert training.encoding.texts.size == 4


def test_resumed_run_keeps_its_weights(tmp_path: Path) -> None:
    train_run(config(model={"penalty": 1.0}), tmp_path / "run", SilentReporter())
    before: Any = load_task(tmp_path / "run")
    resume_run(tmp_path / "run", SilentReporter(), {"max_epochs": 5})
    after: Any = load_task(tmp_path / "run")
    assert np.array_equal(before.weights, after.weights)
    with pytest.raises(CheckpointError, match="always fitted from scratch"):
        train_run(config(model={"penalty": 1.0}), tmp_path / "new", SilentReporter(), init_from=tmp_path / "run")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"loss": {"kind": "hinge"}}, "loss.kind must be cross_entropy"),
        ({"bagging": {"members": 2}}, "is not for model.kind = 'tfidf'"),  # style: option name
        ({"model": {"kind": "tfidf", "penalty": 0}}, "greater than 0"),
    ],
)
def test_options_of_other_models_are_rejected(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        config_of({"model": {"kind": "tfidf"}, **values})
