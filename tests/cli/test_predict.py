"""``catena predict``: texts from a file or standard input, predictions as text, TSV or JSONL."""

from __future__ import annotations

import gzip
import io
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from catena.cli.main import main
from catena.tasks.runs import load_task
from tests.cli.conftest import TINY, Catena, matches, rows

TEXTS = ["will it rain tomorrow", "turn off the lights"]


@pytest.mark.parametrize("source", ["file", "standard input", "-"])
def test_predict_writes_labels_probabilities_and_texts(catena: Catena, files: Path, trained: Path, source: str) -> None:
    words = {"file": [files / "texts.txt"], "standard input": [], "-": ["-"]}[source]
    said = catena("predict", trained, *words, stdin=b"" if source == "file" else "\r\n".join(TEXTS).encode())
    assert (said.code, said.err) == (0, "")
    lines = [line.split("\t") for line in said.out.splitlines()]
    assert [(label, text) for label, _, text in lines] == [("weather", TEXTS[0]), ("smart_home", TEXTS[1])]
    assert all(1 / 3 < float(probability) <= 1 for _, probability, _ in lines)


def test_formats_agree(catena: Catena, files: Path, trained: Path) -> None:
    words = ["predict", trained, files / "texts.txt", "--format"]
    labels = catena(*words, "text").out.splitlines()
    tsv = [line.split("\t") for line in catena(*words, "tsv").out.splitlines()]
    jsonl = [json.loads(line) for line in catena(*words, "jsonl").out.splitlines()]
    assert labels == [row[0] for row in tsv] == [row["label"] for row in jsonl]
    for row, record in zip(tsv, jsonl, strict=True):
        assert float(row[1]) == pytest.approx(record["probability"], abs=1e-4)
        assert (
            record["probabilities"][record["label"]] == record["probability"] == max(record["probabilities"].values())
        )
        assert sum(record["probabilities"].values()) == pytest.approx(1, abs=1e-4)
        assert row[2] == record["text"]


def test_every_line_gets_a_prediction(catena: Catena, trained: Path, tmp_path: Path) -> None:
    path = tmp_path / "blanks.txt"
    path.write_bytes("\ufeffrain\n\n   \nwhat a lovely\tday\nno line end".encode())
    from_file = catena("predict", trained, path).out
    assert [line.split("\t")[2] for line in from_file.splitlines()] == [
        "rain",
        "",
        "",
        "what a lovely day",
        "no line end",
    ]
    assert catena("predict", trained, stdin=path.read_bytes()).out == from_file


def test_input_file_is_not_overwritten(catena: Catena, trained: Path, tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("rain\n", encoding="utf-8")
    (tmp_path / "same.txt").symlink_to(path)
    for name in (path, "texts.txt", "./same.txt"):
        said = catena("predict", trained, path, "-o", name)
        assert said.code == 2
        assert matches(
            said.sentence, f"{Path(name)} is the input file and would be overwritten. Pass another file as -o."
        )
    assert path.read_text(encoding="utf-8") == "rain\n"
    assert catena("predict", trained, path, "-o", "other.txt").code == 0
    assert catena("predict", trained, path, "-o", "other.txt").code == 0, "an old output file is overwritten"


def test_closed_standard_input_prints_error(
    trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["predict", str(trained)]) == 2
    assert "Standard input is closed and FILE is missing" in capsys.readouterr().err


def test_empty_input_is_an_error(catena: Catena, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    for words in ((trained, tmp_path / "empty"), (trained, tmp_path / "empty", "--input-format", "text"), (trained,)):
        said = catena("predict", *words)
        assert (said.code, said.out) == (1, "")
        assert re.search(r"(is empty|has no records)\. Pass a file with text\.$", said.sentence)


def test_texts_are_read_from_every_format(catena: Catena, trained: Path, tmp_path: Path) -> None:
    expected = catena("predict", trained, stdin="\n".join(text for _, text in rows("dev", 8)).encode()).out
    pairs = rows("dev", 8)
    contents = {
        "labeled.tsv": "".join(f"{label}\t{text}\n" for label, text in pairs),
        "swapped.tsv": "".join(f"{text}\t{label}\n" for label, text in pairs),
        "fast.txt": "".join(f"__label__{label} {text}\n" for label, text in pairs),
        "table.csv": "id,text\n" + "".join(f'{i},"{text}"\n' for i, (_, text) in enumerate(pairs)),
        "objects.jsonl": "".join(json.dumps({"text": text}) + "\n" for _, text in pairs),
        "trees.txt": "".join(tree(label, text) for label, text in pairs),
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
        assert catena("predict", trained, tmp_path / name).out == expected, name
    (tmp_path / "first.txt").write_text("".join(f"{label} {text}\n" for label, text in pairs), encoding="utf-8")
    assert catena("predict", trained, tmp_path / "first.txt", "--input-format", "first-word").out == expected
    (tmp_path / "packed").write_bytes(gzip.compress(contents["labeled.tsv"].encode()))
    assert catena("predict", trained, tmp_path / "packed").out == expected


def tree(label: str, text: str) -> str:
    words = text.replace("(", " ").replace(")", " ").split()
    return f"({label} {' '.join(f'(x {word})' for word in words)})\n"


def test_first_word_that_is_not_a_label_belongs_to_text(catena: Catena, trained: Path, tmp_path: Path) -> None:
    path = tmp_path / "looks-like-kim.txt"
    path.write_text("".join(f"{i % 2} is a number\n" for i in range(40)), encoding="utf-8")
    assert catena("predict", trained, path).out.splitlines()[1].endswith("\t1 is a number")


def test_columns_default_to_those_of_training(catena: Catena, tmp_path: Path) -> None:
    path = tmp_path / "mails.csv"
    path.write_text(
        "subject,request,intent\n" + "".join(f'none,"{text}",{label}\n' for label, text in rows("train")),
        encoding="utf-8",
    )
    columns = ["--text-column", "request", "--label-column", "intent"]
    assert catena("train", path, *columns, *TINY, "-q", "-o", "run").code == 0
    assert catena("predict", "run", path).out.splitlines()[0].endswith("\t" + rows("train")[0][1])
    assert catena("predict", "run", path, "--text-column", "subject").out.splitlines()[0].endswith("\tnone")
    assert catena("evaluate", "run", path).code == 0
    said = catena("predict", "run", path, "--text-column", "body")
    assert said.code == 1
    assert "'body'" in said.sentence


def test_column_files_are_rejected_as_texts(catena: Catena, trained: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.conllu"
    path.write_text("1\tRain\train\tNOUN\t_\t_\t0\troot\t_\t_\n\n", encoding="utf-8")
    said = catena("predict", trained, path)
    assert said.code == 1
    assert matches(said.sentence, f"{path} has one word per line, not one text. Use --input-format text to …")
    assert catena("predict", trained, path, "--input-format", "text").code == 0


@pytest.mark.parametrize("words", [["latin"], []])
def test_invalid_encoding_prints_cure(catena: Catena, trained: Path, tmp_path: Path, words: list[str]) -> None:
    content = "will it rain\nat the café\n".encode("latin-1")
    (tmp_path / "latin").write_bytes(content)
    said = catena("predict", trained, *words, stdin=content)
    assert said.code == 1
    assert "0xe9" in said.sentence
    assert re.search("--encoding (cp1252|latin-1)", said.sentence)
    assert "input:2" in said.sentence or "latin:2" in said.sentence
    assert catena("predict", trained, *words, "--encoding", "latin-1", stdin=content).out.endswith("\tat the café\n")
    said = catena("predict", trained, *words, "--encoding", "utf-99", stdin=content)
    assert (said.code, "Unknown encoding 'utf-99'" in said.sentence) == (1, True)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["nowhere", "FILE"], 1, "Run or checkpoint not found: nowhere in …"),
        (["RUN", "missing.txt"], 1, "File not found: missing.txt in the folder …"),
        (["RUN", "."], 1, ". is a folder without a dataset of Hugging Face …"),
        (["RUN", "FILE", "--input-format", "pdf"], 1, "The format of …"),
        (["RUN", "FILE", "--device", "toaster"], 1, "device 'toaster' is not known. …"),
        (
            ["RUN", "FILE", "--format", "xml"],
            2,
            "--format must be tsv or text or csv or jsonl, got 'xml'. Choose one of these.",
        ),
        (["RUN", "FILE", "-o", "no/such/folder/out.tsv"], 2, "Cannot write no/such/folder/out.tsv: there is no …"),
        (
            ["RUN", "my text"],
            2,
            "File not found: 'my text'. To predict for a text, use --text 'my text'.…",
        ),
        (["RUN", "FILE", "--n-best", "0"], 2, "--n-best must be 1 or more, got 0. See --help."),
        (["RUN", "FILE", "-o", "."], 2, "-o must be a file, got the folder .. Use predictions.tsv, for example."),
    ],
)
def test_invalid_predict_prints_error(
    catena: Catena, files: Path, trained: Path, words: list[str], code: int, sentence: str
) -> None:
    places = {"RUN": trained, "FILE": files / "texts.txt"}
    said = catena("predict", *[places.get(word, word) for word in words])
    assert said.code == code
    assert matches(said.sentence, sentence)


def test_predict_with_file_as_run_suggests_training(catena: Catena, tmp_path: Path) -> None:
    (tmp_path / "talk.tsv").write_text("how are you\tfine\n" * 3, encoding="utf-8")
    said = catena("predict", "talk.tsv", "talk.tsv")
    assert (said.code, said.sentence) == (
        2,
        "RUN must be a run folder, got the file talk.tsv. Train a model with 'catena train talk.tsv' (for "
        "conversations, 'catena train converse talk.tsv --model bm25' takes a second), or use 'catena chat talk.tsv', "
        "which needs no training.",
    )


def test_output_file_is_written_atomically(catena: Catena, files: Path, trained: Path, tmp_path: Path) -> None:
    assert catena("predict", trained, files / "texts.txt", "-o", "out.tsv").out == ""
    whole = Path("out.tsv").read_text(encoding="utf-8")
    assert whole == catena("predict", trained, files / "texts.txt").out
    (tmp_path / "broken").write_bytes(b"rain\n" * 3000 + b"\xff\n")
    assert catena("predict", trained, tmp_path / "broken", "-o", "out.tsv").code == 1
    assert Path("out.tsv").read_text(encoding="utf-8") == whole
    assert sorted(path.name for path in Path().iterdir()) == ["broken", "out.tsv"]


def test_terminal_input_is_predicted_line_by_line(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Terminal(io.BytesIO):
        def isatty(self) -> bool:
            return True

        def __next__(self) -> bytes:
            answered.append(capsys.readouterr().out.count("\n"))
            return super().__next__()

    answered: list[int] = []
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Terminal(b"rain\nlights\n")))
    capsys.readouterr()
    assert main(["predict", str(trained)]) == 0
    assert answered == [0, 1, 1], "each line is predicted before the next is read"


def test_file_is_predicted_in_blocks_at_a_terminal(
    trained: Path, files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes: list[int] = []
    family = type(load_task(trained))
    predict = family.predict_examples

    def counted(task: Any, examples: Any, options: Any) -> Any:
        sizes.append(len(examples))
        return predict(task, examples, options)

    monkeypatch.setattr(family, "predict_examples", counted)
    monkeypatch.setattr("catena.cli.predict.stdin_is_terminal", lambda: True)
    assert main(["predict", str(trained), str(files / "train.tsv")]) == 0
    assert sizes == [capsys.readouterr().out.count("\n")]


def test_weights_of_nan_are_rejected_by_every_command(catena: Catena, files: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    from catena.checkpoint import open_checkpoint, write_checkpoint

    assert catena("train", files / "train.tsv", *TINY, "-q", "-o", "run").code == 0
    old = open_checkpoint(tmp_path / "run").folder
    weights = load_file(old / "model.safetensors")
    weights |= {name: tensor * float("nan") for name, tensor in weights.items() if tensor.is_floating_point()}

    def copy_the_rest(folder: Path) -> None:
        shutil.copytree(old, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("manifest.json"))

    write_checkpoint(tmp_path / "nan", weights, copy_the_rest)
    for words in (["predict", "nan", files / "texts.txt"], ["evaluate", "nan", files / "dev.tsv"], ["inspect", "nan"],
                  ["compare", "run", "nan", files / "dev.tsv"], ["average", "nan", "run", "-o", "mean"]):  # fmt: skip
        said = catena(*words)
        assert said.code == 1, words
        assert "nan/model.safetensors must hold finite weights, got nan in " in said.sentence


def test_control_characters_of_the_data_are_escaped_in_all_output(catena: Catena, tmp_path: Path) -> None:
    lines = "".join(f"{label}\x1b[31m\tword{i} {label}\x1b[2J\x9b5n again\n" for i in range(20) for label in ("a", "b"))
    (tmp_path / "data.tsv").write_text(lines, encoding="utf-8")
    said = [catena("train", "data.tsv", "--model", "loglinear", "--max-epochs", "2", "-o", "run")]
    said += [catena("predict", "run", "data.tsv", "--format", form) for form in ("text", "tsv", "csv", "jsonl")]
    said += [catena("evaluate", "run", "data.tsv"), catena("inspect", "run"), catena("inspect", "data.tsv")]
    assert [one.code for one in said] == [0] * 8
    acts = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
    assert [len(acts.findall(one.out)) for one in said] == [0] * 8
    assert json.loads(said[4].out.splitlines()[0])["text"].endswith("a\x1b[2J\x9b5n again")
    assert catena("predict", "run", "data.tsv", "-o", "out.tsv").code == 0
    assert "\x1b[31m" in (tmp_path / "out.tsv").read_text(encoding="utf-8"), "a file keeps them"
    assert "\x1b" not in (tmp_path / "run" / "log.txt").read_text(encoding="utf-8")


def test_ids_of_the_input_are_kept_where_columns_have_names(catena: Catena, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(
        "tweet_id,stars,text\n7,3,will it rain\n9,1,turn off the lights\n", encoding="utf-8"
    )
    said = catena("predict", trained, "in.csv", "--format", "csv").out.splitlines()
    assert said[0] == "tweet_id,label,probability,text"
    assert [line.split(",")[0] for line in said[1:]] == ["7", "9"]
    first = json.loads(catena("predict", trained, "in.csv", "--format", "jsonl").out.splitlines()[0])
    assert first["tweet_id"] == "7"
    assert "stars" not in first
    assert catena("predict", trained, "in.csv").out.count("\t") == 4, "lines without names have fixed columns"


def test_messages_about_standard_input_and_words_name_what_was_given(catena: Catena, trained: Path) -> None:
    assert catena("predict", trained).sentence == "standard input is empty. Pass a file with text."
    said = catena("predict", trained, "wake")
    assert said.sentence == "File not found: 'wake'. To predict for a text, use --text 'wake'."


def test_files_that_cannot_be_decoded_are_explained(catena: Catena, tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    from catena.data.samples.shapes import write_shapes

    write_shapes(tmp_path / "pictures", 16, size=16)
    small = ["--depth", "8", "--model.encoder.width", "4", "--height", "16", "--model.input.width", "16"]
    catena("train", "classify", tmp_path / "pictures", *small, "--max-steps", "1", "-o", tmp_path / "run")
    (tmp_path / "new").mkdir()
    for i in range(7):
        (tmp_path / "new" / f"{i}.png").write_bytes(b"")
    said = catena("predict", tmp_path / "run", tmp_path / "new")
    assert said.out == ""
    first, *errors = said.err.splitlines()
    assert first.endswith("read 7; used 0; dropped 7 (7 not decoded)")
    assert [re.search(r"(\d)\.png is empty", error)[1] for error in errors] == list("01234")  # type: ignore[index]


@pytest.mark.parametrize("form", ["greeting\t{0}\nweather\t{1}\n", "__label__greeting {0}\n__label__spam {1}\n"])
def test_labels_of_input_are_not_part_of_the_text(catena: Catena, trained: Path, form: str) -> None:
    texts = ["hello my good old friend", "will it rain in rome today"]
    Path("a.txt").write_text(form.format(*texts) * 9, encoding="utf-8")
    rows = [json.loads(line) for line in catena("predict", trained, "a.txt", "--format", "jsonl").out.splitlines()]
    assert [row["text"] for row in rows] == texts * 9


def test_error_about_standard_input_names_it(catena: Catena, trained: Path) -> None:
    said = catena("predict", trained, stdin=b"foo\tbar\tbaz\nx\ty\tz\nx\tw\tz\n")
    assert said.code == 1
    assert said.sentence.startswith("standard input has")
