"""Baselines of classifiers equal scikit-learn called directly, and are compared by a paired test."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC, LinearSVC

from catena.data.examples import LabeledText, SourceLocation
from catena.data.media_config import SoundConfig
from catena.metrics.significance import mcnemar
from catena.tasks.baselines.config import BaselinesConfig
from catena.tasks.baselines.fitting import fit_baselines
from catena.tasks.baselines.report import compare_baselines
from catena.tasks.classify.baselines import SoundSuite, TextSuite
from catena.tasks.classify.predict import ClassifyEvaluation
from catena.tasks.sources import DataParts

NAMES = ("majority", "logistic", "ridge", "svm", "svm_rbf")
WORDS = {"sun": "rain cold warm sky cloud", "song": "play loud band tune sing", "lamp": "light switch dark bulb glow"}
DIRECT: dict[str, Callable[[float], Any]] = {
    "logistic": lambda c: LogisticRegression(C=c, max_iter=2000),
    "ridge": lambda c: RidgeClassifier(alpha=0.5 / c),
    "svm": lambda c: LinearSVC(C=c, random_state=0, max_iter=2000),
    "svm_rbf": lambda c: SVC(C=c, break_ties=True),
}


def make_texts(n: int, seed: int, labels: tuple[str, ...] = ("sun", "song", "lamp")) -> list[LabeledText]:
    """Texts whose words are mostly those of their label."""
    rng = np.random.default_rng(seed)
    everything = " ".join(WORDS.values()).split()
    found = []
    for i in range(n):
        label = labels[i % len(labels)]
        words = [rng.choice(WORDS[label].split() if rng.random() < 0.5 else everything) for _ in range(5)]
        found.append(LabeledText(" ".join(words), (label,), SourceLocation("test", i)))
    return found


def make_task(labels: tuple[str, ...] = ("lamp", "song", "sun"), multilabel: bool = False) -> Any:
    """What a suite reads of a classifier, with predictions that are always the first class."""

    def evaluate(examples: Any) -> ClassifyEvaluation:
        table = np.log(np.tile([0.6, *[0.4 / (len(labels) - 1)] * (len(labels) - 1)], (len(examples), 1)))
        return ClassifyEvaluation(labels, table, [example.labels for example in examples], multilabel)

    texts = SimpleNamespace(tokens=str.split)
    return SimpleNamespace(
        labels=labels, multilabel=multilabel, encoding=SimpleNamespace(texts=texts), evaluate=evaluate
    )


@pytest.mark.parametrize("labels", [("sun", "song"), ("sun", "song", "lamp")])
def test_baselines_equal_scikit_learn(labels: tuple[str, ...]) -> None:
    train, dev, test = make_texts(90, 0, labels), make_texts(40, 1, labels), make_texts(60, 2, labels)
    suite = TextSuite(make_task(tuple(sorted(labels))))
    config = BaselinesConfig(baseline=NAMES[1:])
    fitted = {f.name: f for f in fit_baselines(suite, config, DataParts(train, dev), "accuracy")}
    vectorizer = TfidfVectorizer(tokenizer=str.split, token_pattern=None, ngram_range=(1, 2), sublinear_tf=True)
    rows = vectorizer.fit_transform([example.text for example in train])
    gold = [[example.labels[0] for example in part] for part in (train, dev)]
    for name, build in DIRECT.items():
        models = [build(c).fit(rows, gold[0]) for c in config.baseline_c]
        accuracies = [m.score(vectorizer.transform([e.text for e in dev]), gold[1]) for m in models]
        best = models[int(np.argmax(accuracies))]
        inputs = vectorizer.transform([example.text for example in test])
        expected = best.decision_function(inputs)
        found = suite.scores(fitted[name].model, fitted[name].features.transform(suite.inputs(test)))
        if len(labels) == 2:
            found = found[:, 1] - found[:, 0]
        assert np.allclose(found, expected, atol=1e-6), name
        guesses = suite.evaluate(suite.scores(fitted[name].model, inputs), fitted[name].calibration, test).predicted()
        assert [guess for (guess,) in guesses] == best.predict(inputs).tolist()


def test_several_labels_are_separate_decisions() -> None:
    rng = np.random.default_rng(0)
    texts = [
        LabeledText(" ".join(WORDS[name] for name in sorted(some)) or "nothing", tuple(sorted(some)), e.location)
        for e in make_texts(60, 0)
        for some in [{name for name in WORDS if rng.random() < 0.4}]
    ]
    suite = TextSuite(make_task(multilabel=True))
    parts = DataParts(texts[:40], texts[40:])
    fitted = fit_baselines(suite, BaselinesConfig(baseline=NAMES, baseline_c=(1.0,)), parts, "accuracy")
    rows = fitted[1].features.transform(suite.inputs(texts))
    direct = OneVsRestClassifier(LogisticRegression(C=1.0, max_iter=2000)).fit(rows[:40], suite.targets(texts[:40]))
    assert np.allclose(suite.scores(fitted[1].model, rows), direct.decision_function(rows))
    for one in fitted[1:]:
        result = suite.evaluate(suite.scores(one.model, rows[40:]), one.calibration, texts[40:])
        assert result.scores()["accuracy"] > 0.9, one.name


def test_class_without_training_example_has_probability_zero() -> None:
    suite = TextSuite(make_task(("lamp", "moon", "song", "sun")))
    dev = [*make_texts(20, 1), LabeledText("rain", ("moon",), SourceLocation("test", 9))]
    fitted = fit_baselines(suite, BaselinesConfig(baseline=NAMES), DataParts(make_texts(60, 0), dev), "macro_f1")
    assert len(fitted) == len(NAMES)
    for one in fitted:
        scores = suite.scores(one.model, one.features.transform(suite.inputs(dev)))
        result = suite.evaluate(scores, one.calibration, dev)
        assert np.isneginf(result.log_probs[:, 1]).all()
        assert np.allclose(np.exp(result.log_probs).sum(1), 1)


def test_report_has_the_difference_of_every_baseline() -> None:
    suite, test = TextSuite(make_task()), make_texts(90, 2)
    config = BaselinesConfig(baseline=("svm", "majority"))
    fitted = fit_baselines(suite, config, DataParts(make_texts(90, 0), make_texts(30, 1)), "accuracy")
    report = compare_baselines(suite, fitted, test, part="test", metric="accuracy", own_name="cnn", own_bytes=4)
    svm, majority = report.rows
    scores = suite.scores(fitted[0].model, fitted[0].features.transform(suite.inputs(test)))
    theirs = [a == b.labels for a, b in zip(suite.evaluate(scores, 1.0, test).predicted(), test, strict=True)]
    ours = [example.labels == ("lamp",) for example in test]
    exact = mcnemar(ours, theirs)
    assert svm.comparison is not None
    assert svm.comparison.difference == pytest.approx(exact.difference)
    assert svm.comparison.p_value < 0.05
    assert exact.p_value < 0.05
    assert majority.comparison is not None
    assert majority.scores["accuracy"] == pytest.approx(1 / 3)
    assert report.verdict() == "svm is significantly better than this model"
    assert [line.split()[0] for line in report.lines()[1:4]] == ["this", "svm", "majority"]
    assert svm.n_bytes == sum(a.nbytes for a in (fitted[0].model.coef_, fitted[0].model.intercept_)) + (
        fitted[0].features.transformer.idf_.nbytes
    )


def test_svm_rbf_samples_large_data() -> None:
    suite = TextSuite(make_task())
    parts = DataParts(make_texts(90, 0), make_texts(30, 1))
    config = BaselinesConfig(baseline=("svm_rbf", "svm"), baseline_examples=30, baseline_c=(1.0,))
    large, small = fit_baselines(suite, config, parts, "accuracy")
    assert large.model.shape_fit_[0] == 30
    assert "(30 of 90 examples)" in large.describe()
    assert "examples" not in small.describe()


def test_sounds_choose_between_statistics_and_frames() -> None:
    """A rising tone backward is a falling one, and has the same statistics over time."""
    rng = np.random.default_rng(0)
    time = np.arange(3240) / 8000  # 39 frames, which begin and end with the sound
    sounds = []
    for i in range(60):
        start = rng.uniform(200, 1500)
        rising = np.sin(2 * np.pi * (start + rng.uniform(1000, 3000) * time) * time)
        content = (rising if i % 2 else rising[::-1]).astype(np.float32)
        sounds.append(SimpleNamespace(content=content, labels=("up" if i % 2 else "down",)))

    task = make_task(("down", "up"))
    task.config = SimpleNamespace(model=SimpleNamespace(input=SoundConfig(n_mels=10)))
    suite = SoundSuite(task)
    (fitted,) = fit_baselines(
        suite, BaselinesConfig(baseline=("logistic",)), DataParts(sounds[:40], sounds[40:]), "accuracy"
    )
    assert fitted.features.name == "log-mel statistics and frames"
    scores = suite.scores(fitted.model, fitted.features.transform(suite.inputs(sounds[40:])))
    assert suite.evaluate(scores, fitted.calibration, sounds[40:]).scores()["accuracy"] > 0.8
