"""``catena train embed`` and ``catena vectors``: training, queries, evaluation, maps, conversion and errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from catena.cli.main import main
from catena.data.samples.corpus import sample_path
from catena.training.run import RunFolder
from catena.vectors.table import VectorTable
from tests.cli.conftest import Catena
from tests.python_path import python_path
from tests.vectors.test_train import TOPICS, two_topics

SMALL = [
    "--d",
    "12",
    "--window",
    "3",
    "--min-count",
    "1",
    "--threads",
    "1",
    "--learning-rate",
    "0.1",
    "--subsample",
    "0",
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("embed")
    (folder / "text.txt").write_text("\n".join(map(" ".join, two_topics())) + "\n", encoding="utf-8")
    command = ["train", "embed", str(folder / "text.txt"), "-o", str(folder / "run"), "--epochs", "8", "-q", *SMALL]
    assert main(command) == 0
    return folder


def output_of(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(["vectors", *words]) == code
    out, err = capsys.readouterr()
    return out if code == 0 else err


def test_run_has_config_losses_and_vectors(trained: Path) -> None:
    run = trained / "run"
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["epoch"] for row in rows] == list(range(1, 9))
    assert rows[-1]["loss"] < rows[0]["loss"]
    assert 'task = "embed"' in (run / "config.toml").read_text(encoding="utf-8")
    vectors = VectorTable.load(run)
    assert sorted(vectors.words) == sorted(word for words in TOPICS.values() for word in words)
    assert (VectorTable.load(run / "last").matrix == vectors.matrix).all()


def test_run_of_another_task_is_named(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.txt").write_text("the ship sails\n" * 9, encoding="utf-8")
    run = tmp_path / "lm"
    assert main(["train", "lm", str(tmp_path / "x.txt"), "--model", "ngram", "-q", "-o", str(run)]) == 0
    error = output_of(capsys, "neighbors", "ship", "--vectors", str(run), code=1)
    assert f"{run} must be a run of the task embed, got one of the task lm. Train" in error


def test_queries_print_words_and_scores(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--vectors", str(trained / "run")]
    near = output_of(capsys, "neighbors", "ship", "-k", "4", *where)
    assert {line.split()[1] for line in near.splitlines()} == set(TOPICS["sea"]) - {"ship"}
    assert output_of(capsys, "neighbors", where[1], "ship", "-k", "4") == near
    both = output_of(capsys, "neighbors", "ship", "oven", "-k", "1", *where).splitlines()
    assert (both[0], both[2]) == ("ship", "oven")
    assert -1 <= float(output_of(capsys, "similarity", "ship", "oven", *where)) < 0.9
    assert output_of(capsys, "odd-one-out", "ship", "wave", "oven", "sail", *where) == "oven\n"
    for more in ([], ["--multiply"]):
        assert len(output_of(capsys, "analogy", "ship", "wave", "oven", "-k", "2", *more, *where).splitlines()) == 2


def test_evaluate_prints_scores_by_section(trained: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text(": topics\nship wave oven flour\nship moon oven sun\n", encoding="utf-8")
    (tmp_path / "s.txt").write_text("ship wave 9\nship oven 1\nflour yeast 8\nsail dough 2\n", encoding="utf-8")
    where = ["--vectors", str(trained / "run")]
    out = output_of(capsys, "evaluate", str(tmp_path / "q.txt"), str(tmp_path / "s.txt"), *where)
    assert "analogies by 3CosAdd" in out
    assert "of 1, 1 skipped" in out
    assert "over 4 pairs, 0 skipped" in out
    assert "Spearman 0." in out or "Spearman 1." in out


@pytest.mark.parametrize("name", ["map.svg", "map.html"])
def test_map_is_written(trained: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    out = output_of(
        capsys, "map", "-o", str(tmp_path / name), "--title", "Two topics", "--vectors", str(trained / "run")
    )
    assert out.endswith(f"{name}: 10 words\n")
    text = (tmp_path / name).read_text(encoding="utf-8")
    assert all(word in text for words in TOPICS.values() for word in words)
    assert "Two topics" in text


@pytest.mark.parametrize("kind", ["word", "context", "both"])
def test_convert_writes_other_formats(
    trained: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str
) -> None:
    output_of(capsys, "convert", "-o", str(tmp_path / "v.bin"), "--kind", kind, "--vectors", str(trained / "run"))
    assert VectorTable.load(tmp_path / "v.bin").d == (24 if kind == "both" else 12)


def test_line_vectors_can_be_queried_like_words(
    trained: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines = (trained / "text.txt").read_text(encoding="utf-8").splitlines()
    run = str(tmp_path / "run")
    flags = ["--model", "dbow", "--epochs", "20", "-q", *SMALL]
    assert main(["train", "embed", str(trained / "text.txt"), "-o", run, *flags]) == 0
    out = output_of(capsys, "documents", "-o", str(tmp_path / "lines.txt"), "--vectors", run)
    assert out == f"{tmp_path / 'lines.txt'}: {len(lines):,} lines, 12 dimensions\n"
    vectors = VectorTable.load(tmp_path / "lines.txt")
    assert list(vectors.words) == [str(i + 1) for i in range(len(lines))]
    topics = [next(name for name, words in TOPICS.items() if line.split()[0] in words) for line in lines]
    near = [topics[int(other) - 1] for other, _ in vectors.most_similar("1", 20)]
    assert near.count(topics[0]) > 15

    (tmp_path / "new.txt").write_text(f"{lines[0]}\n\n{lines[0]}\n", encoding="utf-8")
    output_of(capsys, "documents", str(tmp_path / "new.txt"), "-o", str(tmp_path / "new.bin"), "--vectors", run)
    new = VectorTable.load(tmp_path / "new.bin")
    assert len(new) == 3
    assert new.similarity("1", "3") > new.similarity("1", "2")


def test_documents_without_paragraph_vectors_prints_error(
    trained: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    wanted = "Documents have no vectors with model = 'skipgram'. Train with --model dm or --model dbow, or"
    for more in ([], [str(trained / "text.txt")]):
        err = output_of(
            capsys, "documents", "-o", str(tmp_path / "x.txt"), *more, "--vectors", str(trained / "run"), code=1
        )
        assert wanted in err


def test_newest_run_is_default(
    trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "No run of 'catena train embed' found in runs/" in output_of(capsys, "neighbors", "ship", code=2)
    text = str(trained / "text.txt")
    assert main(["train", "embed", text, "--epochs", "1", "-q", *SMALL]) == 0
    assert (tmp_path / "runs" / "embed-skipgram-001" / "vectors.safetensors").is_file()
    assert output_of(capsys, "similarity", "ship", "ship") == "1.0000\n"


def test_fine_tuning_keeps_old_words_and_adds_new_ones(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("ship anchor wave anchor\n" * 40, encoding="utf-8")
    command = [
        "train",
        "embed",
        str(tmp_path / "more.txt"),
        "--init-from",
        str(trained / "run"),
        "-o",
        str(tmp_path / "run"),
    ]
    assert main([*command, "-q"]) == 0
    vectors = VectorTable.load(tmp_path / "run")
    assert list(vectors.words)[:10] == list(VectorTable.load(trained / "run").words)
    assert "anchor" in vectors


def test_killed_run_resumes_to_the_same_bits(trained: Path, tmp_path: Path) -> None:
    text = tmp_path / "long.txt"
    text.write_text("\n".join(map(" ".join, two_topics(4000))) + "\n", encoding="utf-8")
    flags = ["--epochs", "5", "--save-every", "0.5", "-q", *SMALL, "--d", "32"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert main(["train", "embed", str(text), "-o", str(whole), *flags]) == 0
    environment = {**os.environ, "PYTHONPATH": python_path(Path(__file__).parents[2] / "src")}
    process = subprocess.Popen(
        [sys.executable, "-m", "catena", "train", "embed", str(text), "-o", str(killed), *flags], env=environment
    )
    wait_for(lambda: len((killed / "metrics.jsonl").read_text().splitlines()) >= 2 if killed.exists() else False)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (killed / "vectors.safetensors").exists()
    assert VectorTable.load(killed).d == 32  # the last checkpoint can be loaded
    assert main(["resume", str(killed), "-q"]) == 0
    assert (VectorTable.load(killed).matrix == VectorTable.load(whole).matrix).all()
    losses = [
        [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        for run in (whole, killed)
    ]
    assert losses[0] == losses[1]


def test_resumed_run_reads_the_same_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Late words and phrases must not depend on what the model has kept of the text."""
    lines = [[*(f"w{(i * j) % 29}" for j in range(1, 6)), "new", "york"] for i in range(400)]
    (tmp_path / "text.txt").write_text("\n".join(map(" ".join, lines)) + "\n", encoding="utf-8")
    phrases = ["--phrases.passes", "1", "--phrases.threshold", "1.0", "--scan-limit", "25", "--min-count", "8"]
    command = ["train", "embed", str(tmp_path / "text.txt"), "--epochs", "3", "-q", *SMALL, *phrases]
    assert main([*command, "-o", str(tmp_path / "whole")]) == 0

    class Killed(BaseException):
        pass

    def die(run: object, row: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "append_metrics", die)
        with pytest.raises(Killed):
            main([*command, "-o", str(tmp_path / "killed")])
    assert main(["resume", str(tmp_path / "killed"), "-q"]) == 0
    assert (VectorTable.load(tmp_path / "killed").matrix == VectorTable.load(tmp_path / "whole").matrix).all()


def wait_for(true: object, seconds: float = 60.0) -> None:
    for _ in range(int(seconds / 0.01)):
        try:
            if true():  # type: ignore[operator]
                return
        except FileNotFoundError:
            pass
        time.sleep(0.01)
    raise AssertionError("it never came")


def test_classifier_trains_on_embed_vectors(tmp_path: Path) -> None:
    train, text, run = tmp_path / "train.tsv", tmp_path / "text.txt", tmp_path / "vectors"
    lines = sample_path("assistant/train.tsv").read_text(encoding="utf-8").splitlines()[::8]
    train.write_text("\n".join(lines) + "\n", encoding="utf-8")
    text.write_text("\n".join(line.split("\t")[1] for line in lines) + "\n", encoding="utf-8")
    assert (
        main(["train", "embed", str(text), "-o", str(run), "--epochs", "2", "-q", *SMALL, "--tokenizer", "words"]) == 0
    )
    command = ["train", "classify", str(train), "--model", "cnn", "--vectors", str(run / "vectors.safetensors"), "-q"]
    command += ["--mode", "static", "--model.embedding.d", "12", "--filters", "4", "--max-epochs", "1"]
    assert main([*command, "--threads", "1", "-o", str(tmp_path / "classifier")]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["neighbours", "ship"], "Unknown command 'catena vectors neighbours': did you mean 'neighbors'"),
        (["analogy", "a", "b"], "The number of words must be 3, got 2. Usage: catena vectors analogy A B C"),
        (["similarity", "a"], "The number of words must be 2, got 1"),
        (["odd-one-out", "a"], "The number of words must be 3 or more, got 1"),
        (["neighbors"], "The number of words must be 1 or more, got 0"),
        (["evaluate"], "FILES… is missing"),
        (["map", "a"], "-o FILE is missing. Usage: catena vectors map"),
        (["map", "-o", "map.gif"], r"-o must end in .svg, .png or .html"),
        (["neighbors", "ship", "-k", "0"], "--k must be 1 or more, got 0"),
        (["convert", "-o", "missing/v.bin"], "there is no folder missing"),
    ],
)
def test_invalid_commands_print_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.txt").write_text("a b a b\n", encoding="utf-8")
    capsys.readouterr()
    assert main(["vectors", *words]) in (1, 2)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--max-steps", "5"], "Unknown option --max-steps"),
        (["--loss", "nonce"], "nonce"),
        (["--windw", "3"], "Did you mean --window"),
        (["--dev", "t.txt"], "Unknown option --dev"),
    ],
)
def test_invalid_options_of_training_print_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.txt").write_text("a b a b\n", encoding="utf-8")
    capsys.readouterr()
    assert main(["train", "embed", "t.txt", *words]) in (1, 2)
    assert message in capsys.readouterr().err


def test_text_without_words_prints_error_and_creates_no_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.txt").write_text("\n\n", encoding="utf-8")
    assert main(["train", "embed", "t.txt", "-o", "run"]) == 1
    assert "has only blank lines" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_run_is_not_resumed_with_new_limits(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resume", str(trained / "run"), "--max-epochs", "20"]) == 1
    assert "max_epochs must not be set for word vectors" in capsys.readouterr().err


def test_common_commands_accept_a_run(trained: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run, words = str(trained / "run"), tmp_path / "words.txt"
    words.write_text("ship\nshipp\n", encoding="utf-8")
    capsys.readouterr()
    assert main(["predict", run, str(words), "--n-best", "2", "--format", "jsonl"]) == 0
    known, unknown = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert [one["word"] for one in known["neighbors"]] == [
        word for word, _ in VectorTable.load(run).most_similar("ship", 2)
    ]
    assert unknown == {"text": "shipp", "neighbors": [], "known": False}
    assert main(["inspect", run]) == 0
    assert "10 words, 12 dimensions" in capsys.readouterr().out
    assert main(["draw", run, "ship"]) == 0
    assert "wave" in capsys.readouterr().out


def test_help_lists_subcommands(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["--help"]):
        assert "odd-one-out" in output_of(capsys, *words)
    assert "usage: catena vectors map" in output_of(capsys, "map", "--help")
    assert main(["train", "embed", "--help"]) == 0
    out = capsys.readouterr().out
    assert "usage: catena train embed" in out
    assert "--min-count" in out
    assert "--window" in out


def test_word_without_vector_prints_error(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = output_of(capsys, "neighbors", "shipp", "--vectors", str(trained / "run"), code=1)
    assert "No vector for 'shipp': did you mean 'ship'?" in words
    assert np.isfinite(VectorTable.load(trained / "run").matrix).all()


def test_warning_is_one_line_without_source(catena: Catena, tmp_path: Path) -> None:
    path = tmp_path / "twice.txt"
    path.write_text("dog 1 2\ncat 2 1\ndog 3 1\nthe 0 1\n", encoding="utf-8")
    said = catena("vectors", "neighbors", path, "cat")
    assert said.code == 0
    assert said.err == (
        f"warning: {path} has 1 duplicate word, such as 'dog' as line 3. The first vector of each word is kept.\n"
    )
