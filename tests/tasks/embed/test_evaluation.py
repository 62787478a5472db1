"""Scores of word vectors, compared with the functions of catena.vectors and with SciPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from catena.data.reading import ReadCounter
from catena.errors import DataError
from catena.tasks.embed.config import EmbedConfig
from catena.tasks.embed.predict import METRICS, EmbedEvaluation, RatedPair
from catena.tasks.embed.task import EmbedTask
from catena.vectors.evaluate import evaluate_analogies, evaluate_similarities
from catena.vectors.table import VectorTable

WORDS = [f"w{i}" for i in range(20)]


@pytest.fixture(scope="module")
def task() -> EmbedTask:
    matrix = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    return EmbedTask(EmbedConfig(), VectorTable.of(WORDS, matrix), None)


def evaluate(task: EmbedTask, path: Path) -> EmbedEvaluation:
    return task.evaluate(task.read(task.config, path, ReadCounter()))  # type: ignore[return-value]


def test_analogies_have_the_counts_of_the_library_function(task: EmbedTask, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    lines = []
    for section in ("near", "far"):
        lines.append(f": {section}")
        for _ in range(15):
            a, b, c = rng.choice(WORDS, 3, replace=False)
            answer = task.vectors.analogy(a, b, c, 2)[int(rng.integers(2))][0]
            lines.append(f"{a} {b} {c.upper()} {answer.upper()}")
        lines.append("w1 w2 w3 unknown")
    (tmp_path / "q.txt").write_text("\n".join(lines), encoding="utf-8")
    result = evaluate(task, tmp_path / "q.txt")
    expected = evaluate_analogies(task.vectors, tmp_path / "q.txt")
    assert 0 < expected.total.accuracy < 1
    assert result.scores() == {"accuracy": pytest.approx(expected.total.accuracy)}
    assert result.details_dict()["sections"] == {
        part.name: {"correct": part.n_correct, "scored": part.n_scored, "skipped": 1} for part in expected.sections
    }
    assert result.notes() == ["questions with an unknown word, which were skipped: 2"]


def test_ratings_have_the_correlation_of_scipy(task: EmbedTask, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    pairs = [tuple(rng.choice(WORDS, 2, replace=False)) for _ in range(30)]
    ratings = rng.integers(0, 6, 30)  # with ties
    lines = [f"{a}\t{b}\t{rating}" for (a, b), rating in zip(pairs, ratings, strict=True)]
    (tmp_path / "s.tsv").write_text("\n".join([*lines, "w1\tunknown\t3"]), encoding="utf-8")
    result = evaluate(task, tmp_path / "s.tsv")
    cosines = [task.vectors.similarity(a, b) for a, b in pairs]
    rho = stats.spearmanr(cosines, ratings).statistic
    assert result.scores() == {"spearman": pytest.approx(rho, abs=1e-12)}
    assert result.scores()["spearman"] == pytest.approx(
        evaluate_similarities(task.vectors, tmp_path / "s.tsv").spearman
    )
    assert result.details_dict() == {"sections": {}, "skipped": 1}


def test_spearman_metric_of_subsets_is_the_correlation_of_their_ranks() -> None:
    """Sums over a subset of the pairs give Pearson's correlation of the ranks among all pairs."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=12), rng.normal(size=12)
    metric = METRICS["spearman"]
    rows = metric.statistics(x, y)
    chosen = rng.integers(0, 12, 12)
    ranks = stats.rankdata(x)[chosen], stats.rankdata(y)[chosen]
    assert float(metric.score(rows[chosen].sum(0))) == pytest.approx(stats.pearsonr(*ranks).statistic)
    assert np.isnan(metric.score(rows[:1].sum(0)))


def test_interval_of_spearman_is_fishers(task: EmbedTask) -> None:
    pairs = [RatedPair((WORDS[i], WORDS[i + 1]), float(i % 5)) for i in range(15)]
    result = task.evaluate(pairs)
    interval, rho = result.interval("spearman"), result.scores()["spearman"]
    half = stats.norm.ppf(0.975) * np.sqrt(1.06 / 12)
    assert interval is not None
    assert [interval.low, interval.high] == pytest.approx(np.tanh(np.arctanh(rho) + np.array([-half, half])))
    assert task.evaluate(pairs[:3]).interval("spearman") is None


def test_result_of_joined_blocks_equals_one_result(task: EmbedTask) -> None:
    pairs = [RatedPair((WORDS[i], WORDS[i + 1]), float(i % 7)) for i in range(18)]
    parts = [task.evaluate_examples(pairs[:7]), task.evaluate_examples(pairs[7:])]
    assert EmbedEvaluation.join(parts).scores() == task.evaluate_examples(pairs).scores()


@pytest.mark.parametrize(("line", "least"), [("w1 x y z", 1), ("w1 w2 3", 2)])
def test_file_without_known_words_is_an_error(task: EmbedTask, tmp_path: Path, line: str, least: int) -> None:
    (tmp_path / "f.txt").write_text(line + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=f"must be at least {least}, got {least - 1} of 1"):
        evaluate(task, tmp_path / "f.txt").scores()
