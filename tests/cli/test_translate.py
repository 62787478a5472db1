"""Commands on translation models: two files or columns, option aliases, ensembles, references, pictures."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from catena.cli.main import main
from tests.cli.conftest import Catena
from tests.tasks.translate.toy import sentences, write_files

NETWORK = ["--model", "recurrent", "--cell", "gru", "--model.d", "16", "--d-embedding", "16", "--threads", "1"]
SMALL = ["--tokenizer", "words", "--min-count", "1", *NETWORK]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files, and a run that was trained on two of them from another folder."""
    folder = write_files(tmp_path_factory.mktemp("translate"))
    with pytest.MonkeyPatch.context() as here:
        here.chdir(folder)
        files = ["--source", "train.en", "--target", "train.de", "--dev-source", "dev.en", "--dev-target", "dev.de"]
        more = ["--batch-size", "400", "--max-epochs", "1", "--sentences", "5", "-o", "run", "-q"]
        assert main(["train", "translate", *files, *SMALL, *more]) == 0
    return folder


def says(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> str:
    assert main([str(word) for word in words]) == code
    found = capsys.readouterr()
    return found.out if code == 0 else found.err


def feed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text.encode()), isatty=lambda: False))


def test_config_has_absolute_paths(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (folder / "run" / "config.toml").read_text(encoding="utf-8")
    assert str(folder / "train.en") in text
    assert str(folder / "dev.de") in text
    assert main(["resume", str(folder / "run"), "-q"]) == 0


def test_standard_input_is_translated_line_by_line(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    feed(monkeypatch, "The dog.\n\nA cat.\n")
    lines = says(capsys, "predict", folder / "run").split("\n")
    assert len(lines) == 4
    assert lines[1] == lines[3] == ""


def test_predict_options_select_columns(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    feed(monkeypatch, "The dog sees a man.\n")
    options = ["--beam-size", "3", "--length-penalty", "0.5", "--n-best", "2", "--scores", "--alignment"]
    lines = says(capsys, "predict", folder / "run", *options).splitlines()
    assert [line.count("\t") for line in lines] == [3, 3]
    feed(monkeypatch, "The dog.\n")
    row = json.loads(says(capsys, "predict", folder / "run", "--format", "jsonl", "--alignment"))
    assert "attention" in row
    assert "--beam-size must be 1 or more, got 0" in says(capsys, "predict", folder / "run", "--beam-size", 0, code=2)
    assert "Did you mean --beam-size" in says(capsys, "predict", folder / "run", "--beam-sise", "2", code=2)


def test_unsupported_inputs_print_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = folder / "dev.tsv"
    for words, sentence in (
        (["predict", folder / "run", pairs, "--text-column", "x"], "Unknown option --text-column. Did you mean"),
        (["predict", folder / "run", pairs, "--input-format", "x"], "--input-format must be one of "),
        (
            ["evaluate", folder / "run", pairs, "--target", folder / "dev.de"],
            "has a tab on every line, so it already contains targets",
        ),
        (["draw", folder / "run", "The dog.", "--word", "zork"], "'zork' is not one of the words that attend"),
    ):
        assert main([str(word) for word in words]) in (1, 2)
        assert sentence in capsys.readouterr().err


def test_truncated_output_prints_one_note(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for n, words in ((1, "1 translation was"), (3, "3 translations were")):
        feed(monkeypatch, "The dog sees a man.\n" * n)
        assert main(["predict", str(folder / "run"), "--max-length", "2", "--beam-size", "1"]) == 0
        said = capsys.readouterr()
        assert said.err.startswith(f"catena predict: {words} cut at --max-length 2, before the end. Raise")
        assert (len(said.out.splitlines()), len(said.err.splitlines())) == (n, 1)


def test_evaluate_compare_and_ensemble(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, dev = folder / "run", (folder / "dev.en", "--target", folder / "dev.de")
    report = json.loads(says(capsys, "evaluate", run, *dev, "--format", "json", "--beam-size", "2"))
    assert {"bleu", "bleu_lowercase", "chrf", "ter", "perplexity"} <= report["scores"].keys()
    assert report["signatures"]["bleu"].startswith("BLEU|nrefs:1|")
    assert "bleu " in says(capsys, "evaluate", run, folder / "dev.tsv", "--ensemble", run)
    assert "exact-randomization" in says(capsys, "compare", run, run, *dev, "--metric", "chrf", "--samples", "50")
    assert "bleu " in says(capsys, "evaluate", run, folder / "dev.en"), "the references of dev are in the config"
    plain = folder / "plain.txt"
    plain.write_text((folder / "dev.en").read_text(encoding="utf-8"), encoding="utf-8")
    assert "has no pairs of texts" in says(capsys, "evaluate", run, plain, code=1)
    lines = says(capsys, "predict", run, folder / "dev.en", "--ensemble", f"{run},{run}").splitlines()
    assert len(lines) == 30


def test_alignments_are_drawn(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder / "x.svg"
    assert says(capsys, "draw", folder / "run", "The dog.", "-o", out, "--layer", "1", "--head", "1").strip() == str(
        out
    )
    assert "<svg" in out.read_text(encoding="utf-8")
    assert "has no self-attention within its source" in says(
        capsys, "draw", folder / "run", "The dog.", "--within", "source", code=1
    )
    assert "--head must be from 1 to 1" in says(capsys, "draw", folder / "run", "The dog.", "--head", "2", code=1)
    assert "dog" in says(capsys, "draw", folder / "run", "The dog.").splitlines()[0]


def test_pairs_of_sentences_select_translate(folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    quick = ["--max-steps", "1", "--sentences", "0", "--batch-size", "400"]
    said = says(capsys, "train", folder / "all.tsv", *SMALL, *quick, "-o", tmp_path / "run")
    assert said.startswith("task: translate, because these are pairs of sentences; 'catena train transduce …'")
    words = tmp_path / "words.tsv"
    words.write_text("".join(f"{x.split()[1]}{i}\t{y.split()[1]}{i}\n" for i, (x, y) in enumerate(sentences()[:60])))
    said = says(capsys, "train", words, "--model.order", "2", "-o", tmp_path / "other")
    assert said.startswith(
        "task: transduce, because these are pairs of words; 'catena train translate …' treats them as"
    )


def test_dialogues_are_not_said_to_be_pairs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    talk, pairs = tmp_path / "talk.txt", tmp_path / "pairs.csv"
    talk.write_text("".join(f"Ann: hello to you {i}\nBen: good day\nAnn: bye {i}\n\n" for i in range(12)))
    pairs.write_text("question,answer\n" + "".join(f"where is the shop {i},it is at road {i}\n" for i in range(12)))
    said = says(capsys, "train", talk, "--model", "bm25", "-o", tmp_path / "talk")
    assert said.startswith("task: converse\n")
    said = says(capsys, "train", pairs, "--model", "bm25", "-o", tmp_path / "pairs")
    assert said.startswith("task: converse, because these are pairs of contexts and responses")


def test_target_option_of_other_tasks_prints_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"word{i}\tw{i}\n" for i in range(30)))
    says(capsys, "train", "transduce", pairs, "--model", "baseline", "-o", tmp_path / "run", "-q")
    said = says(capsys, "evaluate", tmp_path / "run", pairs, "--target", pairs, code=2)
    assert "Unknown option --target." in said
    said = says(capsys, "predict", tmp_path / "run", pairs, "--ensemble", tmp_path / "run", code=1)
    assert "A baseline without probabilities" in said
    said = says(capsys, "evaluate", tmp_path / "run", pairs, "--beam-size", "2", code=1)
    assert "must be seq2seq if --beam-size is set" in said


def test_two_plain_texts_print_hint_about_translation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    english, german = tmp_path / "x.en", tmp_path / "x.de"
    for path in (english, german):
        path.write_text("".join(f"w{i} continues with w{i + 1}\n" for i in range(40)), encoding="utf-8")
    model = ["--model", "ngram", "-o", tmp_path / "run"]
    hint = f"if {german} is its translation line by line, use 'catena train {english} --target {german}'"
    assert says(capsys, "train", english, german, *model).startswith(
        f"task: lm, because {english} is plain text; {hint}\n"
    )
    assert "line by line" not in says(capsys, "train", english, *model, "--overwrite")


def test_columns_of_standard_input_are_selected(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = "no,left\n1,The dog sees a man.\n2,A cat.\n"
    feed(monkeypatch, table)
    lines = says(capsys, "predict", folder / "run", "--source-column", "left", "--scores").splitlines()
    assert [line.split("\t")[0] for line in lines] == ["The dog sees a man.", "A cat."]


def test_csv_with_header_is_trained_evaluated_and_translated(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("en,de\n" + "".join(f'"{x}","{y}"\n' for x, y in sentences()[:30]), encoding="utf-8")
    said = says(capsys, "train", pairs, *SMALL, "--max-steps", 1, "--sentences", 0, "-o", tmp_path / "run")
    assert said.startswith("task: translate, because these are pairs of sentences")
    assert f"{pairs} is csv: a table of 2 columns separated by ',', with a header: pairs of texts" in said
    assert "read 30; used 30; dropped 0" in said
    assert says(capsys, "evaluate", tmp_path / "run", pairs).startswith("read 30; used 30; dropped 0\n")
    other = tmp_path / "pairs.txt"
    other.write_text(pairs.read_text(encoding="utf-8"), encoding="utf-8")
    for words in ([pairs], [other, "--input-format", "csv"]):
        assert main(["predict", str(tmp_path / "run"), *map(str, words), "--max-length", "2"]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 30


def test_text_format_prints_note_about_omitted_results(catena: Catena, folder: Path) -> None:
    words = ["predict", folder / "run", folder / "dev.en", "--format", "text"]
    said = catena(*words, "--scores")
    assert said.code == 0
    assert "--format text does not show the results of --scores; use --format jsonl" in said.err
    assert "does not show" not in catena(*words, "--n-best", "2").err
