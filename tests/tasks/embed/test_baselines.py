"""Word vectors are compared with factor models of the same text."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena import WordVectors
from catena.data.reading import ReadCounter
from catena.errors import ConfigError
from catena.tasks.embed.config import EmbedConfig
from catena.tasks.load import load_model
from catena.tasks.runs import evaluate_baselines, train_run
from catena.training.report import SilentReporter
from tests.cli.conftest import Catena, catena  # noqa: F401  (a fixture)

LINES = [f"the {a} {v} the {b} near the {c}" for a, b in (("king", "queen"), ("man", "woman"), ("dog", "cat"))
         for v in ("saw", "met", "heard") for c in ("lake", "tree", "river")]  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Path:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(LINES * 3) + "\n")
    options = {"model": {"kind": "skipgram", "d": 8}, "words": {"min_count": 1}, "training": {"epochs": 2}}
    config = EmbedConfig.model_validate({**options, "threads": 1, "data": {"train": [str(text)]}})
    train_run(config, tmp_path / "run", SilentReporter())
    words = ["king", "queen", "dog", "saw", "met", "tree", "river"]
    pairs = [f"{a} {b} {i * j % 11}" for i, a in enumerate(words) for j, b in enumerate(words[:i])]
    (tmp_path / "pairs.txt").write_text("\n".join(pairs) + "\n")
    (tmp_path / "questions.txt").write_text(": a\nking queen man woman\nking queen dog cat\nman woman unseen cat\n")
    return tmp_path / "run"


@pytest.mark.parametrize(("file", "metric", "n"), [("questions.txt", "accuracy", 2), ("pairs.txt", "spearman", 21)])
def test_scores_equal_those_of_a_separate_model(file: str, metric: str, n: int, run: Path) -> None:
    questions = run.parent / file
    task = load_model(run)
    examples = list(task.read(task.config, questions, ReadCounter()))
    report = evaluate_baselines(task, run, ["lsa", "nmf"], examples, file)
    assert (report.metric, report.n, report.unit) == (metric, n, "question")
    assert report.own.scores == task.evaluate(examples).scores()
    for row, kind in zip(report.rows, ("lsa", "nmf"), strict=True):
        alone = WordVectors(kind, d=8, words_min_count=1).fit(run.parent / "text.txt")
        assert row.name == kind
        assert row.scores == pytest.approx(alone.evaluate(questions).scores())
        assert row.comparison is not None
        assert row.comparison.difference == pytest.approx(report.own.scores[metric] - row.scores[metric])


def test_command_prints_the_table(run: Path, catena: Catena) -> None:  # noqa: F811
    said = catena("evaluate", str(run), str(run.parent / "pairs.txt"), "--baseline", "lsa,pca")
    assert said.code == 0, said.err
    assert "this model (skipgram)" in said.out
    assert "8 dimensions on ppmi of contexts" in said.out


def test_unknown_baseline_is_an_error(run: Path) -> None:
    with pytest.raises(ConfigError, match="Unknown baseline 'lda' of word vectors: did you mean 'lsa'"):
        evaluate_baselines(load_model(run), run, ["lda"], [], "x")
