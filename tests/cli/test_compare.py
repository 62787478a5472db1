"""``catena compare``."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.cli.conftest import TINY, Catena, matches


@pytest.fixture(scope="module")
def poor(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has seen an eighth of the texts."""
    from catena.cli.main import main

    folder = tmp_path_factory.mktemp("runs") / "poor"
    few = folder.parent / "few.tsv"
    lines = (files / "train.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    few.write_text("".join(lines[::8]), encoding="utf-8")
    words = ["train", few, "--dev", files / "dev.tsv", *TINY, "-q", "-o", folder]
    assert main([str(word) for word in words]) == 0
    return folder


def test_compare_with_itself_and_with_worse_model(
    catena: Catena, files: Path, trained: Path, poor: Path, tmp_path: Path
) -> None:
    lines = (files / "train.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    some = tmp_path / "some.tsv"
    some.write_text("".join(lines[:18]), encoding="utf-8")
    same = catena("compare", trained, trained, files / "dev.tsv", "--samples", "200")
    assert same.code == 0
    assert "a difference of +0.0000" in same.out
    assert "the difference is not significant; the two do not differ on any example" in same.out
    assert "this test ignores the variance between seeds" in same.out.splitlines()[1]
    for test in ("bootstrap", "randomization"):
        words = ["compare", trained, poor, some, "--samples", "200", "--test", test]
        found = json.loads(catena(*words, "--format", "json").out)
        scores = [
            json.loads(catena("evaluate", run, some, "--format", "json").out)["scores"]["accuracy"]
            for run in (trained, poor)
        ]
        assert [found["first"], found["second"]] == pytest.approx(scores)
        assert scores[0] > scores[1]
        exact = 2 / 2 ** found["differing"]  # the better one is right on all texts
        assert found["p_value"] < exact if test == "bootstrap" else found["p_value"] == pytest.approx(exact)
        assert test in found["signature"]
        said = catena(*words)
        assert f"; the two differ on {found['differing']} examples only" in said.out.splitlines()[0]
        assert said.out.splitlines()[2] == found["signature"]
        assert catena(*words).out == said.out, "the same seed gives the same samples"


def test_metric_option_selects_metric(catena: Catena, files: Path, trained: Path, poor: Path) -> None:
    words = ["compare", trained, poor, files / "dev.tsv", "--samples", "50", "--metric"]
    assert "average:macro" in catena(*words, "macro_f1").out
    said = catena(*words, "charm")
    assert (said.code, said.sentence) == (
        1,
        "metric must be one of accuracy, macro_f1, log_loss, got 'charm'. Choose one of these.",
    )


def test_invalid_compare_prints_error(catena: Catena, files: Path, trained: Path) -> None:
    assert catena("compare", trained, "nowhere", files / "dev.tsv").sentence.startswith(
        "Run or checkpoint not found: nowhere in "
    )
    said = catena("compare", trained, trained, files / "dev.tsv", "--samples", "0")
    assert (said.code, said.sentence) == (2, "--samples must be 1 or more, got 0. See --help.")
    said = catena("compare", trained, trained, "missing.tsv")
    assert (said.code, matches(said.sentence, "File not found: missing.tsv …")) == (1, True)


def test_language_models_are_compared_by_perplexity(
    catena: Catena, language_model: Path, ngram_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "x.txt").write_text("the cat sat\na dog ran\n" * 5, encoding="utf-8")
    words = ("compare", language_model, ngram_model, "x.txt", "--samples", "100")
    said = catena(*words)
    assert said.code == 0, said.err
    assert "perplexity" in said.out
    assert catena(*words, "--metric", "perplexity").out == said.out
    assert "got 'accuracy'. Choose one of these." in catena(*words, "--metric", "accuracy").sentence


def test_compare_of_different_tasks_prints_error(
    catena: Catena, files: Path, trained: Path, ngram_model: Path, tmp_path: Path
) -> None:
    said = catena("compare", trained, ngram_model, files / "dev.tsv")
    assert said.code == 1
    assert "must be for the same task, got classify (" in said.sentence
    assert said.sentence.endswith("Pass two runs of one task.")


def test_randomization_is_default_and_exact_if_few_examples_differ(
    catena: Catena, files: Path, trained: Path, poor: Path, tmp_path: Path
) -> None:
    lines = (files / "dev.tsv").read_text(encoding="utf-8").splitlines(keepends=True)[:8]
    (tmp_path / "few.tsv").write_text("".join(lines), encoding="utf-8")
    found = json.loads(catena("compare", trained, poor, "few.tsv", "--format", "json").out)
    assert "|test:exact-randomization|differing:" in found["signature"]
    assert found["signature"].startswith("accuracy|")
    assert found["differing"]
    assert found["p_value"] >= 2 / 2 ** found["differing"]


def test_macro_f1_of_compare_equals_evaluate(catena: Catena, files: Path, trained: Path, tmp_path: Path) -> None:
    lines = (files / "dev.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    label = lines[0].split("\t")[0]
    (tmp_path / "x.tsv").write_text("".join(x for x in lines if not x.startswith(label)) + "odd\tzzz\n", "utf-8")
    found = json.loads(catena("compare", trained, trained, "x.tsv", "--metric", "macro_f1", "--format", "json").out)
    report = json.loads(catena("evaluate", trained, "x.tsv", "--format", "json").out)
    assert found["first"] == pytest.approx(report["scores"]["macro_f1"])


def test_ngram_run_equals_its_own_export(catena: Catena, tmp_path: Path) -> None:
    rng = random.Random(0)
    words = ["the", "a", "cat", "dog", "bird", "sat", "ran", "sang", "on", "under", "by", "mat", "tree", "barn"]
    text = "".join(" ".join(rng.choices(words, k=rng.randint(3, 9))) + "\n" for _ in range(400))
    (tmp_path / "x.txt").write_text(text, encoding="utf-8")
    words = ("train", "lm", "x.txt", "--model", "ngram", "--tokenizer", "whitespace", "-q", "-o", "run")
    assert catena(*words).code == 0
    assert catena("export", "run", "--to", "arpa", "-o", "m.arpa").code == 0
    found = json.loads(catena("compare", "run", "m.arpa", "x.txt", "--format", "json").out)
    assert (found["p_value"], found["differing"]) == (1.0, 0)


def test_ngram_file_compares_like_its_run(
    catena: Catena, language_model: Path, ngram_model: Path, trained: Path, tmp_path: Path
) -> None:
    (tmp_path / "x.txt").write_text("the cat sat\na dog ran\n" * 5, encoding="utf-8")
    assert catena("export", ngram_model, "--to", "arpa", "-o", "m.arpa").code == 0
    options = ("x.txt", "--samples", "100", "--format", "json")
    of_file, of_run = (catena("compare", language_model, second, *options) for second in ("m.arpa", ngram_model))
    assert of_file.code == 0, of_file.err
    found, wanted = json.loads(of_file.out), json.loads(of_run.out)
    assert found["second"] == pytest.approx(wanted["second"], rel=1e-4)
    assert found["first"] == wanted["first"]
    (tmp_path / "y.txt").write_text("the cat, sat\n" * 5, encoding="utf-8")
    said = catena("compare", ngram_model, "m.arpa", "y.txt")
    assert f"(tokenizer.kind is words in {ngram_model} and whitespace in m.arpa)" in said.sentence
    assert "must be for the same task, got lm (" in catena("compare", "m.arpa", trained, "x.txt").sentence


def test_compare_with_different_candidates_names_the_difference(catena: Catena, tmp_path: Path) -> None:
    lines = "".join(f"what about number {i} ?\tit is number {i}\n" for i in range(30))
    (tmp_path / "talk.tsv").write_text(lines, encoding="utf-8")
    for n in ("4", "5"):
        words = (
            "train",
            "converse",
            "talk.tsv",
            "--model",
            "bm25",
            "--evaluation.candidates",
            n,
            "-q",
            "-o",
            f"of-{n}",
        )
        assert catena(*words).code == 0
    said = catena("compare", "of-4", "of-5", "talk.tsv")
    assert (said.code, said.sentence) == (
        1,
        "The two models are evaluated differently on talk.tsv (evaluation.candidates is 4 in of-4 and 5 in of-5) and "
        "cannot be compared.",
    )
    assert catena("compare", "of-4", "of-4", "talk.tsv", "--samples", "10").code == 0
