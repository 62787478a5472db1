"""``catena inspect`` for data files and runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from catena.tasks.auto.record import SearchRecord, Trial
from tests.cli.conftest import Catena, matches, rows, write_rows


def test_inspect_data_files_separately_and_together(catena: Catena, files: Path) -> None:
    said = catena("inspect", files / "train.tsv")
    assert said.code == 0
    assert said.out.startswith(f"{files / 'train.tsv'}: tsv\n  a table of 2 columns separated by tabs")
    assert "60 examples, 60 lines" in said.out
    assert "no problems found" in said.out
    leaking = write_rows(Path("leaking.tsv"), rows("train")[5:9])
    said = catena("inspect", files / "train.tsv", leaking)
    assert "4 texts of leaking.tsv (100.0% of its distinct texts) also occur in" in said.out
    found = json.loads(catena("inspect", files / "train.tsv", leaking, "--format", "json").out)
    assert [file["n_examples"] for file in found["files"]] == [60, 4]
    assert [finding["kind"] for finding in found["findings"]] == ["overlap"]


@pytest.mark.parametrize("content", [None, b"", b"caf\xe9\n", b"\0\0\0"])
def test_unusable_files_exit_with_code_1(catena: Catena, content: bytes | None) -> None:
    if content is not None:
        Path("x").write_bytes(content)
    said = catena("inspect", "x")
    assert said.code == 1
    assert "  error: " in said.out
    assert said.err == ""


def test_encoding_option_reads_latin_1(catena: Catena) -> None:
    Path("x").write_bytes("at the caf\xe9\nat home\n".encode("latin-1"))
    assert catena("inspect", "x", "--encoding", "latin-1").code == 0


def test_inspect_run_prints_origin_and_model(catena: Catena, files: Path, trained: Path) -> None:
    said = catena("inspect", trained, "--top", "2")
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0] == f"run: {trained}"
    assert lines[1].startswith("command: catena ")
    assert "evaluations: 2" in lines
    assert any(line.startswith(f"train: {files / 'train.tsv'} (sha256 ") for line in lines)
    assert any(line.startswith("best: step 4, accuracy 0.") or line.startswith("best: step 2, ") for line in lines)
    weather = next(line for line in lines if line.startswith("  weather: "))
    assert weather.count("+") == 2
    found = json.loads(catena("inspect", trained, "--format", "json").out)
    assert (found["seed"], len(found["evaluations"])) == (0, 2)
    assert any("the 10 features" in line for line in found["model"])


def test_inspect_checkpoint_prints_model(catena: Catena, trained: Path) -> None:
    said = catena("inspect", trained / "best")
    assert said.code == 0
    assert said.out.startswith("a classifier of kind loglinear: 3 classes")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "FILES… or RUN is missing. Usage: catena inspect [TASK] FILES… [--options] or catena inspect RUN."),
        (["FILE", "RUN"], "RUN is a run and cannot be combined with other paths. …"),
        (["RUN", "--top", "0"], "--top must be 1 or more, got 0. See --help."),
        (["RUN", "--tpo", "3"], "Unknown option --tpo. Did you mean --top?"),
    ],
)
def test_invalid_usage_prints_error(
    catena: Catena, files: Path, trained: Path, words: list[str], sentence: str
) -> None:
    places = {"RUN": trained, "FILE": files / "train.tsv"}
    said = catena("inspect", *[places.get(word, word) for word in words])
    assert said.code == 2
    assert matches(said.sentence, sentence.replace("RUN is a run", f"{trained} is a run"))


def test_score_that_is_not_finite_is_null_in_json(catena: Catena) -> None:
    Path("few.txt").write_text("a b\na b\n", encoding="utf-8")
    Path("new.txt").write_text("b a\n", encoding="utf-8")
    words = "few.txt --dev new.txt --model ngram --model.order 2 --estimator maximum-likelihood --min-count 1 -o run"
    assert catena("train", "lm", *words.split()).code == 0
    assert "best: step 1, perplexity not finite, " in catena("inspect", "run").out
    told = catena("inspect", "run", "--format", "json").out
    assert json.loads(told, parse_constant=pytest.fail)["best"]["scores"]["perplexity"] is None
    scores = json.loads(catena("evaluate", "run", "new.txt", "--format", "json").out, parse_constant=pytest.fail)
    assert scores["scores"]["perplexity"] is None


def test_file_of_recipes_is_usable(catena: Catena, tmp_path: Path) -> None:
    one = {"title": "tea", "ingredients": ["water", "tea"], "directions": ["boil the water", "add the tea"]}
    (tmp_path / "recipes.jsonl").write_text(2 * (json.dumps(one) + "\n"), encoding="utf-8")
    said = catena("inspect", "recipes.jsonl")
    assert said.code == 0, said.out
    assert "text = 'directions'" in said.out
    assert "2 examples" in said.out
    (tmp_path / "others.jsonl").write_text(json.dumps({"title": "tea", "directions": "boil"}) + "\n", encoding="utf-8")
    assert catena("inspect", "others.jsonl").code == 1, "without ingredients it is not detected as recipes"


def test_inspect_reads_as_the_options_say(catena: Catena, tmp_path: Path) -> None:
    rows = [f"{i},line {i} of a note,{('work', 'home')[i % 2]}" for i in range(12)]
    (tmp_path / "notes.csv").write_text("\n".join(["nr,Body,Folder", *rows]) + "\n", encoding="utf-8")
    said = catena("inspect", "notes.csv", "--text-column", "Body", "--label-column", "Folder")
    assert said.code == 0
    assert "task: classify" in said.out
    assert "labels: 2 different" in said.out
    said = catena("inspect", "lm", "notes.csv", "--text-column", "Body")
    assert said.code == 0
    assert "task: lm" in said.out
    (tmp_path / "a.en").write_text("one\ntwo\nthree\n", encoding="utf-8")
    (tmp_path / "a.de").write_text("eins\nzwei\n", encoding="utf-8")
    said = catena("inspect", "a.en", "--target", "a.de")
    assert said.code == 1
    assert "a.en has 3 lines and a.de has 2: they must be parallel line by line." in said.out


def test_inspect_describes_search_that_was_killed_before_it_had_a_model(catena: Catena, tmp_path: Path) -> None:
    trials = [
        Trial("tfidf", "TF-IDF", {}, "converged", 1.0, scores={"accuracy": 0.8}, metric="accuracy"),
        Trial("cnn", "convolutional network", {}),
    ]
    record = SearchRecord("classify", 60.0, 500, 100, ("catena", "train", "a b.tsv"), trials=trials, spent=20.0)
    record.write(tmp_path)
    said = catena("inspect", tmp_path)
    assert said.code == 0
    assert said.out.splitlines() == [
        f"unfinished search: {tmp_path}",
        "command: catena train 'a b.tsv'",
        *record.lines(),
        f"to continue: catena resume {tmp_path}",
    ]
    found = json.loads(catena("inspect", tmp_path, "--format", "json").out)["search"]
    assert [trial["status"] for trial in found["trials"]] == ["converged", "waiting"]
