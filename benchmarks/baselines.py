"""Compare --baseline with scikit-learn called directly, on texts, digits, pictures and numbers.

    python benchmarks/baselines.py $CATENA_DATA [NAMES…] [--baseline svm,svm_rbf]

NAMES are sst2, rt, digits, cifar10 and values; all by default. For each baseline the table shows the score of the
baseline on test, of scikit-learn called directly, the largest difference of their decision values, and the processor
time of both. sst2 chooses C on its dev set; the others use C = 1. Pictures are read by Pillow here. ``values`` predicts
the digit of a picture as a number.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from PIL import Image
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR

from catena.data.config import WordTokenizerConfig
from catena.data.examples import LabeledText, SourceLocation
from catena.data.tokenize import build_tokenizer
from catena.tasks.baselines.config import BaselinesConfig, RegressBaselinesConfig
from catena.tasks.baselines.fitting import fit_baselines
from catena.tasks.classify.baselines import PictureSuite, TextSuite
from catena.tasks.regress.baselines import RegressSuite
from catena.tasks.regress.data import RegressExample
from catena.tasks.sources import DataParts

CLASSIFIERS: dict[str, Callable[[float], Any]] = {
    "logistic": lambda c: LogisticRegression(C=c, max_iter=2000),
    "ridge": lambda c: RidgeClassifier(alpha=1 / (2 * c)),
    "svm": lambda c: LinearSVC(C=c, dual="auto", max_iter=2000, random_state=0),
    "svm_rbf": lambda c: SVC(C=c, cache_size=500, break_ties=True),
}
REGRESSORS: dict[str, Callable[[float], Any]] = {
    "linear": lambda c: LinearRegression(),
    "ridge": lambda c: Ridge(alpha=1 / (2 * c), tol=1e-6),
    "svr": lambda c: TransformedTargetRegressor(
        LinearSVR(C=c, epsilon=0.1, loss="squared_epsilon_insensitive", dual="auto", max_iter=2000, random_state=0),
        transformer=StandardScaler(),
    ),
    "svr_rbf": lambda c: TransformedTargetRegressor(SVR(C=c, epsilon=0.1), transformer=StandardScaler()),
}


@dataclass(frozen=True)
class Problem:
    """A data set, read by Catena and again without it.

    Args:
        suite: what ``--baseline`` fits.
        parts: train, dev and test as examples.
        inputs: train, dev and test as inputs of ``transformer``.
        targets: train, dev and test as labels or values.
        transformer: the features of scikit-learn.
        penalties: the values of C.
    """

    suite: Any
    parts: DataParts[Any]
    inputs: Sequence[Any]
    targets: Sequence[np.ndarray]
    transformer: Any
    penalties: tuple[float, ...] = (1.0,)

    @property
    def is_regression(self) -> bool:
        return isinstance(self.suite, RegressSuite)


# --- data -------------------------------------------------------------------------------------------------------------


def make_texts(parts: Sequence[list[tuple[str, str]]], penalties: tuple[float, ...] = (1.0,)) -> Problem:
    """Labeled texts of train, dev and test, tokenized like those of a classifier."""
    tokens = build_tokenizer(WordTokenizerConfig(lowercase=True)).tokens
    labels = tuple(sorted({label for label, _ in parts[0]}))
    task = SimpleNamespace(
        labels=labels, multilabel=False, encoding=SimpleNamespace(texts=SimpleNamespace(tokens=tokens))
    )
    places = SourceLocation("benchmark", 0)
    examples = [[LabeledText(text, (label,), places) for label, text in part] for part in parts]
    least = 2 if len(parts[0]) >= 1000 else 1
    transformer = TfidfVectorizer(analyzer=lambda text: bigrams(tokens(text)), min_df=least, sublinear_tf=True)
    inputs = [[text for _, text in part] for part in parts]
    targets = [np.array([label for label, _ in part]) for part in parts]
    return Problem(TextSuite(task), DataParts(*examples), inputs, targets, transformer, penalties)


def bigrams(tokens: Sequence[str]) -> list[str]:
    """Tokens and pairs of neighbors."""
    return [*tokens, *(f"{a} {b}" for a, b in itertools.pairwise(tokens))]


def read_texts(path: Path) -> list[tuple[str, str]]:
    """Lines of a label and a text."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return [(label, text) for label, _, text in (line.partition(" ") for line in lines)]


def sst2(data: Path) -> Problem:
    """The Stanford Sentiment Treebank with two classes."""
    folder = data / "text_classification"
    parts = [read_texts(folder / f"stsa.binary.{part}") for part in ("train", "dev", "test")]
    return make_texts(parts, (0.25, 0.5, 1.0, 4.0))


def rt(data: Path) -> Problem:
    """Movie reviews: every tenth is for test."""
    rows = read_texts(data / "text_classification" / "rt-polarity.all")
    test = rows[::10]
    return make_texts([[row for i, row in enumerate(rows) if i % 10], test, test])


def read_digits(data: Path) -> tuple[np.ndarray, np.ndarray]:
    """The pixels of 1,797 digits from 0 to 16, and their labels."""
    with (data / "images" / "digits_8x8.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if row and row[0].strip().lstrip("-").isdigit()]
    table = np.array(rows, np.float64).astype(int)
    return table[:, :-1], table[:, -1]


def digits(data: Path) -> Problem:
    """Digits of 8 x 8 pixels: the first 1,200 are for train, the last 597 for test."""
    pixels, labels = read_digits(data)
    pictures = np.repeat((pixels * 255 // 16).astype(np.uint8).reshape(-1, 8, 8, 1), 3, axis=-1)
    split = (pictures[:1200], pictures[1200:]), (labels[:1200].astype(str), labels[1200:].astype(str))
    return make_pictures(*split)


def cifar10(data: Path) -> Problem:
    """cifar10_small: 8,000 pictures for train, 2,000 for test."""
    pictures, labels = [], []
    for part in ("train", "test"):
        files = sorted((data / "cifar10_small" / part).glob("*/*"))
        pictures.append(np.stack([np.asarray(Image.open(file).convert("RGB")) for file in files]))
        labels.append(np.array([file.parent.name for file in files]))
    return make_pictures(pictures, labels)


def make_pictures(pictures: Sequence[np.ndarray], labels: Sequence[np.ndarray]) -> Problem:
    """Pictures of train and test; test is also dev, since there is one value of C."""
    task = SimpleNamespace(labels=tuple(sorted(set(labels[0].tolist()))), multilabel=False)
    train, test = (
        [SimpleNamespace(content=pixels, labels=(label,)) for pixels, label in zip(part, names.tolist(), strict=True)]
        for part, names in zip(pictures, labels, strict=True)
    )
    rows = [part.reshape(len(part), -1) / np.float32(255) for part in pictures]
    transformer = PCA(60, svd_solver="randomized", random_state=0)
    order = (0, 1, 1)
    return Problem(
        PictureSuite(task), DataParts(train, test, test), [rows[i] for i in order], [labels[i] for i in order],
        transformer,
    )  # fmt: skip


def values(data: Path) -> Problem:
    """The digit of a picture as a number, from its 64 pixels."""
    pixels, labels = read_digits(data)
    place = SourceLocation("benchmark", 0)
    pairs = zip(pixels.tolist(), labels.tolist(), strict=True)
    examples = [RegressExample("", tuple(map(float, row)), float(label), place) for row, label in pairs]
    names = tuple(map(str, range(64)))
    suite = RegressSuite(SimpleNamespace(encoding=SimpleNamespace(texts=None, names=names)))
    split = [slice(0, 1200), slice(1200, None), slice(1200, None)]
    parts = DataParts(*(examples[part] for part in split))
    return Problem(
        suite, parts, [pixels[part].astype(float) for part in split], [labels[part] for part in split], StandardScaler()
    )


PROBLEMS: dict[str, Callable[[Path], Problem]] = {
    function.__name__: function for function in (sst2, rt, digits, cifar10, values)
}


# --- both ways --------------------------------------------------------------------------------------------------------


def compare(problem: Problem, chosen: Sequence[str]) -> Iterator[str]:
    """A line for each chosen baseline; for all if none is chosen."""
    models = REGRESSORS if problem.is_regression else CLASSIFIERS
    models = {name: build for name, build in models.items() if not chosen or name in chosen}
    metric = "rmse" if problem.is_regression else "accuracy"
    features = problem.transformer.fit_transform(problem.inputs[0])
    dev, test = (problem.transformer.transform(inputs) for inputs in problem.inputs[1:])
    for name, build in models.items():
        began = time.process_time()
        score, decisions = by_catena(problem, name, metric)
        middle = time.process_time()
        peers = [build(c).fit(features, problem.targets[0]) for c in problem.penalties]
        quality = [model.score(dev, problem.targets[1]) for model in peers]
        best = peers[int(np.argmax(quality))]
        end = time.process_time()
        expected = best.predict(test) if problem.is_regression else best.decision_function(test)
        direct = (
            float(np.sqrt(np.mean((expected - problem.targets[2]) ** 2)))
            if problem.is_regression
            else best.score(test, problem.targets[2])
        )
        difference = np.abs(decisions - expected).max()
        seconds = f"{middle - began:.1f} s and {end - middle:.1f} s"
        yield f"  {name:<9} {metric} {score:.4f} and {direct:.4f}   difference {difference:.1e}   {seconds}"


def by_catena(problem: Problem, name: str, metric: str) -> tuple[float, np.ndarray]:
    """The score on test and the decision values of a baseline."""
    kind: Any = RegressBaselinesConfig if problem.is_regression else BaselinesConfig
    (fitted,) = fit_baselines(
        problem.suite, kind(baseline=(name,), baseline_c=problem.penalties), problem.parts, metric
    )
    suite, test = problem.suite, problem.parts.test
    scores = suite.scores(fitted.model, fitted.features.transform(suite.inputs(test)))
    value = suite.evaluate(scores, fitted.calibration, test).scores()[metric]
    is_binary = scores.ndim == 2 and scores.shape[1] == 2
    return value, scores[:, 1] - scores[:, 0] if is_binary else scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder of the evaluation data")
    parser.add_argument("names", nargs="*", choices=[*PROBLEMS, []], help="data sets; all by default")
    parser.add_argument("--baseline", default="", help="baselines, separated by commas; all by default")
    options = parser.parse_args()
    chosen = [name for name in options.baseline.split(",") if name]
    for name in options.names or PROBLEMS:
        problem = PROBLEMS[name](options.data)
        sizes = ", ".join(str(len(part)) for part in problem.inputs)
        print(f"{name}: {sizes} examples of train, dev and test; Catena and scikit-learn", flush=True)
        for line in compare(problem, chosen):
            print(line, flush=True)


if __name__ == "__main__":
    main()
