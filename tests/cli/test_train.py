"""``catena train``: task detection, precedence of values, run folders, interruptions and errors."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from catena.checkpoint import open_checkpoint, read_meta
from catena.config import load
from catena.errors import DataError, FormatError
from catena.tasks.classify.config import ClassifyConfig
from catena.tasks.classify.linear.task import LinearTraining
from catena.tasks.classify.task import ClassifyTask
from catena.tasks.spec import detect_pairs, detect_spec
from tests.cli.conftest import NETWORK, TINY, Catena, environment, matches, rows, write_rows


def config_of(run: Path) -> ClassifyConfig:
    return load(ClassifyConfig, run / "config.toml")


# --- task detection ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["FILE", *TINY],
        ["classify", "FILE", *TINY],
        [*TINY, "FILE"],
        [*TINY, "classify", "FILE"],
        ["classify", *TINY, "--train", "FILE"],
        ["--data.input_format=tsv", "FILE", *TINY],
        ["FILE", "-s", "model=loglinear", "--training.max_epochs=2", "--machine.threads", "1"],
    ],
)
def test_file_is_found_anywhere_in_the_command(catena: Catena, files: Path, words: list[str]) -> None:
    said = catena("train", *[files / "train.tsv" if word == "FILE" else word for word in words], "-o", "run")
    assert said.code == 0, said.err
    assert "read 60; used 60; dropped 0" in said.out
    assert (config_of(Path("run")).model.kind, config_of(Path("run")).training.max_epochs) == ("loglinear", 2)


def test_output_shows_progress_and_next_commands(catena: Catena, files: Path) -> None:
    said = catena(
        "train", files / "train.tsv", "--dev", files / "dev.tsv", "--test", files / "dev.tsv", *TINY, "--device", "cpu"
    )
    assert said.code == 0
    folder = Path("runs/classify-loglinear-001")
    for words in (
        "device: cpu (1 thread)",
        "train.tsv is tsv: a table of 2 columns",
        "3 labels: ",
        "  epoch      step       loss  accuracy",
        f"next: catena evaluate {folder} FILE, or catena predict {folder} FILE",
    ):
        assert words in said.out
    assert said.out.splitlines()[-1].startswith("test: accuracy 0.")
    assert (folder / "best").resolve() == open_checkpoint(folder).folder.resolve()
    catena("train", files / "train.tsv", *TINY, "-q")
    assert Path("runs/classify-loglinear-002").is_dir(), "the next free number"


def test_quiet_prints_only_the_result(catena: Catena, files: Path) -> None:
    said = catena("train", files / "train.tsv", "--test", files / "dev.tsv", *TINY, "-q", "-o", "run")
    first, second = said.out.splitlines()
    assert first.startswith("dev: accuracy ")
    assert first.endswith("   run")
    assert second.startswith("test: accuracy ")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "FILES… is missing. Usage: catena train [TASK] FILES… [--options]."),
        (["--max-epochs", "3"], "FILES… is missing. Usage: catena train [TASK] FILES… [--options]."),
        (
            ["clasify", "x.tsv"],
            "'clasify' is neither a task nor a file. Check the path; as a task: did you mean 'classify'?",
        ),
        (["FILE", "--modle", "cnn"], "Unknown option --modle. Did you mean --mode or --model?"),
        (["FILE", "--training.batch-size", "3"], "Unknown option --training.batch-size. Did you mean --batches.ba…"),
        (["FILE", "--batch-size"], "--batches.batch_size requires a value: int. Add one."),
        (["FILE", "-s", "model"], "-s must be followed by key=value, got 'model'. …"),
        (["FILE", "-x"], "Unknown option -x. See --help."),
        (["FILE", "--seeds", "0"], "--seeds must be 1 or more, got 0. See --help."),
        (["FILE", "--train", "other.tsv"], "The training files are set twice, by an option and as …"),
        (
            ["translate", "--source", "a.en", "b.en", "--target", "a.de", "b.de"],
            "The training files are set twice, by an option and as b.en. Remove one of them.…",
        ),
    ],
)
def test_invalid_commands_print_error(catena: Catena, files: Path, words: list[str], sentence: str) -> None:
    said = catena("train", *[files / "train.tsv" if word == "FILE" else word for word in words])
    assert said.code == 2
    assert matches(said.sentence, sentence)
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["classify"], "There is nothing to train on. Name a file, as in 'catena train classify FILE'."),
        (["missing.tsv"], "File not found: missing.tsv in the folder …"),
        (["--device", "cuda:99", "FILE", "--model", "mlp"], "device 'cuda:99' is not available: …"),
        (["FILE", "--device", "toaster"], "device 'toaster' is not known. Use auto, cpu, cuda, cuda:0 or mps."),
        (["FILE", "--device", "toaster", "--model", "mlp"], "device 'toaster' is not known. Use auto, cpu, cuda, …"),
        (["FILE", "--device", "cuda:99"], "device 'cuda:99' is not available: …"),
        (["FILE", "--track", "pigeons"], "--track must be 'tensorboard', got 'pigeons'. Use --track tensorboard."),
        (["FILE", "--folds", "99"], "folds must be at most 60, the number of examples, got 99. Lower it."),
        (["FILE", "--encoding", "utf-99"], "Unknown encoding 'utf-99' for …"),
        (["FILE", "--dev", "missing.tsv"], "File not found: …"),
        (
            ["FILE", "-c", "missing.toml"],
            "Config file not found: missing.toml. Write one with 'catena init TASK -o miss…",
        ),
        (["FILE", "--init-from", "missing"], "Run or checkpoint not found: missing in …"),
    ],
)
def test_failed_training_prints_error(catena: Catena, files: Path, words: list[str], sentence: str) -> None:
    said = catena("train", *[files / "train.tsv" if word == "FILE" else word for word in words])
    assert said.code == 1
    assert matches(said.sentence, sentence)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--model", "cnnn"], "model.kind is 'cnnn': did you mean 'cnn'?"),
        (["--batch-size", "-3"], "batches.batch_size must be greater than 0, got -3"),
        (["--threads", "0"], "machine.threads must be greater than 0, got 0"),
        (["--max-time", "5x"], "max_time must be a duration, got '5x'. Write it as 90s, 5m, 2h or 1h30m."),
        (["--folds", "2", "--test", "x"], "data.folds creates its own test sets. Remove data.test."),
        (["--optimizer", "sgd", "--rho", "0.9"], "rho is an option of adadelta, and optimizer is 'sgd'. Remove it."),
        (
            ["--model", "loglinear", "--model.n-highway", "3"],
            "model.n_highway is an option of 'cnn' and 'recurrent' and ",
        ),
    ],
)
def test_invalid_values_print_error(catena: Catena, files: Path, words: list[str], problem: str) -> None:
    said = catena("train", files / "train.tsv", *words)
    assert said.code == 1
    assert said.err.startswith("catena train: the command line has an invalid value: " + problem)
    assert said.err.count("\n") == 1
    assert not Path("runs").exists(), "nothing is written before the values are valid"


# --- invalid data -----------------------------------------------------------------------------------------------------

CONLLU = "1\tDogs\tdog\tNOUN\tNNS\t_\t2\tnsubj\t_\t_\n2\tbark\tbark\tVERB\tVBP\t_\t0\troot\t_\t_\n\n"


@pytest.mark.parametrize("task", [[], ["classify"]])
@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty. Pass a file with text."),
        (
            b"weather\tis it raining\n",
            "1 example cannot be split into train and dev. Add examples, or pass a dev file.",
        ),
        (
            b"a\tx y\na\tz w\n" * 9,
            "Training data must have at least two labels, got only the label 'a'. Check --label-column and the file.",
        ),
        ("weather\tcaf\xe9\nmusic\tplay\n".encode("latin-1") * 9, ":1 is not UTF-8: byte 0xe9 at character 12"),
        (b"\x89PNG\r\n\x1a\n\0\0", "is a PNG picture, not a text file"),
    ],
)
def test_unsuitable_files_print_error(
    catena: Catena, tmp_path: Path, task: list[str], content: bytes, sentence: str
) -> None:
    path = tmp_path / "data"
    path.write_bytes(content)
    said = catena("train", *task, path)
    assert said.code == 1
    assert sentence in said.sentence
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        (["classify"], "rows have ten tab-separated fields"),
        ([], "1 example cannot be split into train and dev. Add examples, or pass a dev file."),
    ],
)
def test_treebank_trains_a_parser(catena: Catena, tmp_path: Path, task: list[str], sentence: str) -> None:
    path = tmp_path / "data"
    path.write_text(CONLLU, encoding="utf-8")
    said = catena("train", *task, path)
    assert said.code == 1
    assert sentence in said.sentence
    assert not Path("runs").exists()


def test_folder_as_file_prints_error(catena: Catena, tmp_path: Path) -> None:
    said = catena("train", tmp_path)
    assert (said.code, "is a folder without" in said.sentence) == (1, True)


def test_encoding_option_reads_other_encodings(catena: Catena, tmp_path: Path) -> None:
    pairs = [(label, f"café {text}") for label, text in rows("train")]
    for encoding in ("latin-1", "utf-16"):
        path = tmp_path / f"{encoding}.tsv"
        path.write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding=encoding)
        assert catena("train", path, "--encoding", encoding, *TINY, "-o", encoding, "-q").code == 0
    assert "is not UTF-8" in catena("train", tmp_path / "latin-1.tsv", *TINY).sentence


def test_one_dev_example_is_enough(catena: Catena, tmp_path: Path) -> None:
    pair = write_rows(tmp_path / "two.tsv", [("a", "yes indeed"), ("b", "not at all")])
    assert catena("train", "classify", pair, "--input-format", "tsv", *TINY, "-o", "run").code == 0
    blank = tmp_path / "blank.tsv"
    blank.write_text("a\t\nb\t\n", encoding="utf-8")
    said = catena("train", "classify", pair, "--input-format", "tsv", "--dev", blank, *TINY, "-o", "other")
    assert matches(said.sentence, "No example of dev can be used…")


def test_dropped_examples_are_counted_and_listed(catena: Catena, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "some.tsv", [*rows("train"), ("weather", "   "), ("weather", "rain " * 30)])
    said = catena("train", path, *TINY, "--max-length", "25", "-o", "run")
    assert "read 62; used 60; dropped 2 (1 empty, 1 longer than max_length=25), listed in dropped.tsv" in said.out
    listed = Path("run/dropped.tsv").read_text(encoding="utf-8").splitlines()
    assert [line.split("\t")[1:3] for line in listed[1:]] == [["61", "empty"], ["62", "longer than max_length=25"]]


# --- precedence of values ---------------------------------------------------------------------------------------------


def test_options_override_config_file(catena: Catena, files: Path) -> None:
    made = catena("init", "classify", "--model", "loglinear", "--max-epochs", "9", "--seed", "7", "-o", "my.toml")
    assert made.code == 0
    said = catena("train", "-c", "my.toml", files / "train.tsv", "--max-epochs", "2", "--threads", "1", "-o", "run")
    assert said.code == 0, said.err
    config = config_of(Path("run"))
    assert (config.model.kind, config.training.max_epochs, config.seed) == ("loglinear", 2, 7)
    assert config.data.train == (str((files / "train.tsv").resolve()),)


def test_config_sets_the_files(catena: Catena, files: Path) -> None:
    Path("all.toml").write_text(
        f'task = "classify"\n[data]\ntrain = ["{files / "train.tsv"}"]\n[model]\nkind = "loglinear"\n'
        "[training]\nmax_epochs = 1\n",
        encoding="utf-8",
    )
    assert catena("train", "-c", "all.toml", "-o", "run").code == 0


def test_all_config_errors_are_reported_with_lines(catena: Catena, files: Path) -> None:
    Path("bad.toml").write_text(
        'task = "classify"\n[model]\nkind = "cnn"\nn_layers = 3\n[training]\nbatch_size = 3\npatience = -1\n',
        encoding="utf-8",
    )
    said = catena("train", files / "train.tsv", "-c", "bad.toml")
    assert said.code == 1
    first, *problems = said.err.splitlines()
    assert first == "catena train: bad.toml has 3 invalid values:"
    assert sorted(problems) == [
        "  - model.n_layers (line 4) is not a known key: did you mean 'model.encoder.n_layers'"
        " or 'model.encoder.recurrent.n_layers' or 'model.encoder.encoder.n_layers'?",
        "  - training.batch_size (line 6) is not a known key: did you mean 'batches.batch_size'?",
        "  - training.patience (line 7) must be 0 or more, got -1.",
    ]


def test_config_without_task_prints_error(catena: Catena) -> None:
    Path("odd.toml").write_text('task = "fly"\n', encoding="utf-8")
    assert matches(catena("train", "-c", "odd.toml").sentence, "task in odd.toml must be the name of a task, got …")


def test_max_time_searches_for_a_model_and_keeps_other_options(catena: Catena, files: Path) -> None:
    said = catena("train", files / "train.tsv", "--max-time", "19s", "--patience", "1", "-o", "run")
    assert said.code == 0, said.err
    assert said.out.startswith("task: classify\ndev: 25.0% of 60 examples, enlarged")
    assert "chosen: tfidf" in said.out
    assert said.out.splitlines()[-1] == "next: catena evaluate run FILE, or catena predict run FILE"
    config = config_of(Path("run"))
    assert (config.model.kind, config.data.dev_fraction) == ("tfidf", 0.25)
    assert re.search(r"^search: \d+ candidates? in ", catena("inspect", "run").out, re.MULTILINE)
    assert catena("predict", "run", files / "train.tsv").code == 0
    named = catena("train", files / "train.tsv", "--max-time", "20s", *TINY, "-o", "named")
    assert "chosen" not in named.out


def test_unlabeled_text_needs_a_search(catena: Catena, files: Path) -> None:
    for more in ((), ("--max-time", "9s", "--model", "cnn")):
        said = catena("train", files / "train.tsv", "--unlabeled", files / "train.tsv", *more)
        assert "--unlabeled needs a search for a model" in said.sentence


def test_log_names_the_default_model_before_training_begins(
    catena: Catena, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise DataError("Training ended early. Train again.")

    monkeypatch.setattr(LinearTraining, "train", fail)
    assert catena("train", files / "train.tsv", "-o", "run").code == 1
    assert "the default for" in Path("run/log.txt").read_text(encoding="utf-8")


# --- folders ----------------------------------------------------------------------------------------------------------


def test_nothing_is_overwritten_without_option(catena: Catena, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["train", files / "train.tsv", *TINY, "-q", "-o", "run"]
    assert catena(*words).code == 0
    before = read_meta(Path("run"))
    with monkeypatch.context() as patched:
        patched.setattr(ClassifyTask, "prepare", None)  # fails before any data is read
        said = catena(*words)
    assert said.code == 1
    assert matches(
        said.sentence, "Cannot write the run to run: it contains a run. Continue it with 'catena resume run'…"
    )
    assert read_meta(Path("run")) == before
    assert catena(*words, "--seed", "5", "--overwrite").code == 0
    assert read_meta(Path("run"))["seed"] == 5


def test_folder_with_other_files_is_not_changed(catena: Catena, files: Path) -> None:
    Path("mine").mkdir()
    Path("mine/thesis.txt").write_text("years of work", encoding="utf-8")
    for words in ([], ["--overwrite"]):
        said = catena("train", files / "train.tsv", *TINY, "-o", "mine", *words)
        assert said.code == 1
        assert "It was not changed" in said.sentence
    assert [path.name for path in Path("mine").iterdir()] == ["thesis.txt"]
    assert "it is a file" in catena("train", files / "train.tsv", *TINY, "-o", "mine/thesis.txt").sentence


def test_seeds_train_several_runs_with_interval(catena: Catena, files: Path, trained: Path) -> None:
    words = ["train", files / "train.tsv", *TINY, "--seeds", "2", "--seed", "3"]
    said = catena(*words, "-o", "both")
    assert said.code == 0
    summary = json.loads(Path("both/summary.json").read_text(encoding="utf-8"))
    assert sorted(summary["runs"]) == ["seed-3", "seed-4"]
    values = [summary["runs"][name]["dev"]["accuracy"] for name in summary["runs"]]
    assert summary["dev"]["accuracy"]["mean"] == pytest.approx(sum(values) / 2)
    assert f"dev accuracy: {sum(values) / 2:.4f} (95 % interval " in said.out
    assert config_of(Path("both/seed-4")).seed == 4
    for verb in ("predict", "resume", "inspect"):
        assert matches(catena(verb, "both").sentence, "both contains 2 runs. Pass one of them, such as both/seed-3.")
    assert matches(catena(*words, "-o", trained).sentence, f"{trained} is a run and cannot hold 2 runs. …")


def test_zero_folds_train_once(catena: Catena, files: Path) -> None:
    assert catena("train", files / "train.tsv", *TINY, "--folds", "0", "-q", "-o", "run").code == 0
    assert Path("run/metrics.jsonl").exists(), "one run, not a folder of runs"
    assert "folds must be at least 2, or none" in catena("train", files / "train.tsv", *TINY, "--folds", "1").sentence


def test_folds_are_trained_together_or_separately(catena: Catena, files: Path) -> None:
    words = ["train", files / "train.tsv", *TINY, "--folds", "2", "-q"]
    said = catena(*words, "-o", "all")
    summary = json.loads(Path("all/summary.json").read_text(encoding="utf-8"))
    assert sorted(summary["runs"]) == ["fold-0", "fold-1"]
    assert "test accuracy: " in said.out
    catena(*words, "--fold", "1", "-o", "one")
    alone = json.loads(Path("one/metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert alone["accuracy"] == pytest.approx(summary["runs"]["fold-1"]["test"]["accuracy"], abs=1e-6)


# --- from an older run ------------------------------------------------------------------------------------------------


def test_from_starts_with_weights_and_vocabulary_of_older_run(
    catena: Catena, files: Path, trained_network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, torch.Tensor]] = []
    plain = ClassifyTask.loss

    def loss(self: ClassifyTask, batch: Any) -> Any:
        seen.append({name: t.cpu().clone() for name, t in self.model.state_dict().items()})
        return plain(self, batch)

    monkeypatch.setattr(ClassifyTask, "loss", loss)
    said = catena("train", files / "dev.tsv", "--init-from", trained_network, "--max-epochs", "1", "-o", "fine")
    assert said.code == 0, said.err
    for name, tensor in open_checkpoint(trained_network).weights().items():
        assert torch.equal(seen[0][name], tensor), name
    assert config_of(Path("fine")).training.learning_rate == config_of(trained_network).training.learning_rate
    assert config_of(Path("fine")).data.dev is None, "the files of the old run are not those of the new"
    assert catena("resume", "fine").code == 0, "with the old vocabulary, not one of the new texts"


def test_from_another_kind_of_model_prints_error(catena: Catena, files: Path, trained: Path) -> None:
    said = catena("train", files / "dev.tsv", "--init-from", trained, "--model", "cnn")
    assert said.code == 1
    assert "(kind 'loglinear'), got kind 'cnn' or other options" in said.sentence


# --- interruptions ----------------------------------------------------------------------------------------------------


def test_ctrl_c_saves_and_prints_resume_command(catena: Catena, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["train", files / "train.tsv", *NETWORK, "--batch-size", "10"]
    plain, steps = ClassifyTask.loss, []

    def loss(self: ClassifyTask, batch: Any) -> Any:
        steps.append(1)
        if len(steps) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return plain(self, batch)

    with monkeypatch.context() as patched:
        patched.setattr(ClassifyTask, "loss", loss)
        said = catena(*words, "-o", "run")
    assert said.code == 130
    assert said.out.splitlines()[-1] == "to continue: catena resume run"
    assert open_checkpoint(Path("run/last")).folder.name == "step-000003"
    said = catena("resume", "run")
    assert said.code == 0
    assert "resumed after step 3" in said.out
    catena(*words, "-o", "whole")
    for name, tensor in open_checkpoint(Path("whole")).weights().items():
        assert torch.equal(open_checkpoint(Path("run")).weights()[name], tensor)


def test_ctrl_c_stops_all_of_several_runs(catena: Catena, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = ClassifyTask.loss

    def loss(self: ClassifyTask, batch: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return plain(self, batch)

    monkeypatch.setattr(ClassifyTask, "loss", loss)
    said = catena("train", files / "train.tsv", *NETWORK, "--seeds", "3", "-q", "-o", "three")
    assert said.code == 130
    assert said.out == "the parts after seed-0 were not trained; finished runs are in three\n"
    assert [path.name for path in Path("three").iterdir()] == ["seed-0"]


def test_training_continues_if_stdout_is_closed(files: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "catena", "train", files / "train.tsv", *NETWORK, "-o", tmp_path / "run"]
    with subprocess.Popen(
        list(map(str, command)), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()  # as `| head` does
        assert process.stderr.read().startswith("standard output is closed; training continues")
        assert process.wait(60) == 0
    assert open_checkpoint(tmp_path / "run" / "last").folder.name == "step-000004"
    assert "max_epochs reached" in (tmp_path / "run/log.txt").read_text(encoding="utf-8")


def test_sources_may_be_positional_if_targets_are_set(catena: Catena, tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("one\ntwo\n", encoding="utf-8")
    (tmp_path / "a.de").write_text("eins\n", encoding="utf-8")
    for task in ([], ["translate"]):
        said = catena("train", *task, tmp_path / "a.en", "--target", tmp_path / "a.de", "-o", tmp_path / "run")
        assert said.code == 1
        assert said.sentence.startswith(f"{tmp_path / 'a.en'} has 2 lines and {tmp_path / 'a.de'} has 1: ")


def test_tables_of_recipes_select_compose(tmp_path: Path) -> None:
    for name, between in (("a.csv", ","), ("a.tsv", "\t")):
        rows = [["", "title", "ingredients", "directions", "source"]]
        rows += [[str(i), "A hot tea", "['water']", "Boil the water twice.", "web"] for i in range(9)]
        (tmp_path / name).write_text("".join(between.join(row) + "\n" for row in rows), encoding="utf-8")
        assert detect_spec(tmp_path / name).name == "compose"


@pytest.mark.parametrize(
    ("thing", "task"),
    [
        ({"title": "Soup", "ingredients": ["water"], "directions": ["Boil it."]}, "compose"),
        ({"name": "Soup", "recipeIngredient": ["water"], "recipeInstructions": "Boil it."}, "compose"),
        ({"title": "Soup", "keywords": ["water"], "text": "Boil it.", "label": "food"}, "classify"),
        ({"id": 3, "translation": {"en": "He is here.", "de": "Er ist hier."}}, "translate"),
        ({"prompt": "When?", "completion": "Now."}, "converse"),
        ({"messages": [{"role": "user", "content": "When?"}]}, "converse"),
    ],
)
def test_json_keys_select_the_task(thing: dict[str, object], task: str, tmp_path: Path) -> None:
    path = tmp_path / "things.jsonl"
    path.write_text(json.dumps(thing) + "\n", encoding="utf-8")
    assert detect_spec(path).name == task


def test_json_with_columns_of_no_task_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "things.jsonl"
    path.write_text(json.dumps({"title": "Soup", "text": "Boil it."}) + "\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"no label column .* only 'title', 'text'\. .*'catena train lm "):
        detect_spec(path)


def test_mostly_unknown_words_print_warning(catena: Catena, tmp_path: Path) -> None:
    for name, text in (("names", "Anna\nBen\nClara\nDora\nEmil\n"), ("text", "we see\nwe go\nwe see\nwe see\n")):
        path = tmp_path / f"{name}.txt"
        path.write_text(text, encoding="utf-8")
        said = catena("train", "lm", path, "--dev", path, "--model", "ngram", "-o", tmp_path / name).out
        assert ("most words of train are too rare for the vocabulary" in said) == (name == "names")


def test_help_is_for_the_detected_task(catena: Catena, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("we go home\twir gehen heim\nthey see me\tsie sehen mich\n", encoding="utf-8")
    assert "catena train translate" in catena("train", "pairs.tsv", "--help").out
    assert "catena train translate" not in catena("train", "nowhere.tsv", "--help").out


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("en,de\nHe is here.,Er ist hier.\n", "translate"),
        ("He is here.,Er ist hier.\nIt is not.,Es ist nicht so.\n", "translate"),
        ("id;question;answer\n1;When is it?;At nine.\n", "converse"),
        ("text,label\nso good,pos\n", "classify"),
        ("1,He is here.,Er ist hier.\n2,No it is not.,Nein das ist es nicht.\n", "translate"),
        (
            "a,He is here.,Er ist hier.\nb,No it is not.,Nein.\n",
            "x.csv has 3 columns without a header.* --source-column",
        ),
        ("Yes, he is.\nNo.\n", "x.csv has lines with 1 or 2 fields separated by ','.*--input-format text"),
    ],
)
def test_csv_columns_select_the_task(text: str, task: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text, encoding="utf-8")
    if " " in task:
        with pytest.raises(FormatError, match=task):
            detect_spec(path)
    else:
        assert detect_spec(path).name == task


def test_named_columns_of_words_are_transduced(tmp_path: Path) -> None:
    columns = {"source": "a", "target": "b"}
    for text, task in (("a,b\ncat,kæt\ndog,dɒɡ\n", "transduce"), ("a,b\nHe is here.,Er ist hier.\n", "translate")):
        (tmp_path / "x.csv").write_text(text, encoding="utf-8")
        assert detect_pairs(tmp_path / "x.csv", columns).name == task


def test_column_options_select_the_task(catena: Catena, tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("1\ta\tb\n2\tc\td\n", encoding="utf-8")
    said = catena("train", tmp_path / "x.tsv", "--source-column", "2", "--target-column", "5", "-o", tmp_path / "run")
    assert "x.tsv has no column '5'" in said.sentence
    (tmp_path / "x.csv").write_text("文本,标签\n很好看,好\n太棒了,好\n不好看,坏\n很差,坏\n", encoding="utf-8")
    words = ("train", tmp_path / "x.csv", "--text-column", "文本", "--max-epochs", "1", "-q", "-o", tmp_path / "run")
    assert catena(*words, "--model", "loglinear").code == 0
    assert load(ClassifyConfig, tmp_path / "run" / "config.toml").task == "classify"


def test_text_column_makes_an_unclear_table_one_to_classify(catena: Catena, tmp_path: Path) -> None:
    rows = "".join(f"dough {i},bread,mon\nwheel {i},bike,tue\n" for i in range(8))
    (tmp_path / "x.csv").write_text("note,topic,day\n" + rows, encoding="utf-8")
    assert catena("train", tmp_path / "x.csv").sentence.endswith("Pass --text-column note.")
    words = ("train", tmp_path / "x.csv", "--text-column", "note", "--model", "loglinear", "--max-epochs", "1")
    assert catena(*words, "-o", tmp_path / "run").code == 0
    assert catena("predict", tmp_path / "run", stdin=b"wheel 5\n").out.startswith("bike")


@pytest.mark.parametrize("named", [(), ("parse",)])
def test_model_of_another_task_names_that_task(catena: Catena, tmp_path: Path, named: tuple[str, ...]) -> None:
    (tmp_path / "x.txt").write_text("(good (x nice) (x cat))\n(bad (x poor) (x cat))\n" * 4, encoding="utf-8")
    said = catena("train", *named, tmp_path / "x.txt", "--model", "tree_lstm", "-o", tmp_path / "run")
    assert said.code == 2
    assert matches(said.sentence, "--model must be a model of the task parse, got 'tree_lstm', a model of classify. …")
    words = ("train", "classify", tmp_path / "x.txt", "--dev", tmp_path / "x.txt", "--model", "tree_lstm")
    assert catena(*words, "--max-epochs", "1", "-o", tmp_path / "run").code == 0
