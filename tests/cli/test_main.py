"""The front door: help at once, exit codes, and one sentence for every error."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from catena.cli import doctor, evaluate
from catena.cli.main import VERBS, main
from catena.errors import CheckpointError
from catena.version import __version__
from tests.cli.conftest import Catena, environment, in_process_of_its_own, matches


def test_help_names_every_verb(catena: Catena) -> None:
    for words in ([], ["--help"], ["-h"], ["help"]):
        said = catena(*words)
        assert said.code == 0
        for verb in VERBS:
            assert re.search(rf"^  {verb} +[A-Z]", said.out, re.M)


def test_every_verb_has_a_file_of_its_own() -> None:
    cli = Path(doctor.__file__).parent
    assert {path.stem for path in cli.glob("*.py")} >= set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_is_readable(catena: Catena, verb: str) -> None:
    said = catena(verb, "--help")
    assert said.code == 0
    assert said.out.startswith(f"usage: catena {verb} ")
    assert said.err == ""
    assert "{None}" not in said.out, "how Python writes a type is not help"
    assert "(default: )" not in said.out
    assert "default: None" not in said.out
    assert max(map(len, said.out.splitlines())) <= 120
    assert catena("help", verb).out == said.out


def test_help_of_the_config_follows_the_model_that_is_named(catena: Catena) -> None:
    of_cnn, of_gru = catena("train", "--help").out, catena("train", "--model", "recurrent", "--help").out
    assert "--filters (default: 100)" in of_cnn
    assert "--cell " not in of_cnn
    assert "--cell elman|leaky|lstm" in of_gru
    assert "--filters" not in of_gru
    assert "--learning-rate (default: 0.002)" in of_gru, "what suits this model"
    assert "--lowercase (default: true)" in of_cnn, "as the task has it, not the tokenizer"


def test_help_and_init_import_no_torch() -> None:
    code = (
        "import sys\n"
        "from catena.cli.main import VERBS, main\n"
        "helps = [[verb, '--help'] for verb in VERBS]\n"
        "for words in (['--help'], *helps, ['init', 'classify'], ['train', 'nowhere.tsv']):\n"
        "    main(words)\n"
        "    assert not {'torch', 'numba', 'sklearn'} & set(sys.modules), words\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_first_help_imports_next_to_nothing() -> None:
    code = "import sys; from catena.cli.main import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert {"pydantic", "tyro", "rich", "numpy"}.isdisjoint(done.stderr.split())


@pytest.mark.parametrize("verb", ["predict", "score", "correct", "draw", "generate"])
def test_help_shows_which_words_may_be_left_out(catena: Catena, verb: str) -> None:
    assert re.search(r"^usage: .* RUN \[(FILE|TEXT …|PROMPTS…)\]$", catena(verb, "--help").out, re.M)


def test_version(catena: Catena) -> None:
    for word in ("--version", "-V", "version"):
        assert catena(word).out == f"catena {__version__}\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["trian"], "there is no verb 'trian': did you mean 'train'?"),
        (["frobnicate"], "there is no verb 'frobnicate': known are 'average',…"),
        (["--hlep"], "there is no verb '--hlep': …"),
        (["evaluate"], "something is missing: catena evaluate RUN FILE"),
        (["evaluate", "run"], "something is missing: catena evaluate RUN FILE"),
        (["evaluate", "run", "a", "b"], "'b' is one word too many: catena evaluate RUN FILE"),
        (["evaluate", "run", "a", "b", "c"], "'b' is one word too many: catena evaluate RUN FILE"),
        (["evaluate", "run", "a", "-x"], "there is no flag -x: catena evaluate RUN FILE"),
        (["evaluate", "run", "a", "--thread", "1"], "there is no flag --thread: did you mean --threads?"),
        (["evaluate", "run", "a", "--threads"], "--threads needs a value"),
        (["evaluate", "run", "a", "--threads", "x"], "--threads must be a whole number, and is 'x'"),
        (["evaluate", "run", "a", "--threads", "0"], "--threads must be 1 or more, and is 0"),
        (["evaluate", "run", "a", "--seed", "-1"], "--seed must be 0 or more, and is -1"),
        (["evaluate", "run", "a", "--format", "xml"], "--format is 'xml', and must be text or json"),
        (
            ["evaluate", "run", "a", "--wrong", "--worse"],
            "there is no flag --wrong: see 'catena evaluate --help'; there is no flag --worse: …",
        ),
        (["resume"], "something is missing: catena resume RUN"),
        (["predict"], "something is missing: catena predict RUN [FILE]"),
        (["compare", "a", "b"], "something is missing: catena compare RUN_A RUN_B FILE"),
        (["init"], "something is missing: catena init TASK [-o FILE] [--flags]"),
        (["doctor", "me"], "'me' is one word too many: catena doctor"),
        (["train", "--quiet=no"], "--quiet is a switch and takes no value: leave =no out"),
    ],
)
def test_wrong_usage_ends_with_code_2_and_one_sentence(catena: Catena, words: list[str], sentence: str) -> None:
    said = catena(*words)
    assert said.code == 2
    assert said.out == ""
    assert matches(said.sentence, sentence)


def test_underscores_are_as_good_as_hyphens(catena: Catena) -> None:
    assert catena("evaluate", "run", "a", "--text_column", "x").code == 1  # there is no such run


def test_a_fault_of_our_own_is_told_in_one_sentence_with_its_traceback_in_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> int:
        raise TypeError("something\nunforeseen")

    monkeypatch.setattr(evaluate, "run", fail)
    assert main(["evaluate"]) == 1
    said = capsys.readouterr().err
    found = re.fullmatch(
        r"catena evaluate: a fault of Catena itself, TypeError: something unforeseen\. Please report it, with (\S+)\n",
        said,
    )
    assert found
    trace = Path(found[1])
    assert "in fail" in trace.read_text(encoding="utf-8")
    trace.unlink()


def test_debug_raises(trained: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no run or checkpoint"):
        main(["evaluate", "nowhere", "file", "--debug"])


def test_what_the_system_refuses_is_told_in_one_sentence(catena: Catena, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> int:
        raise OSError(28, "No space left on device", "runs/x")

    monkeypatch.setattr(evaluate, "run", fail)
    said = catena("evaluate")
    assert (said.code, said.sentence.partition(". ")[0]) == (1, "runs/x cannot be used: No space left on device")


def test_ctrl_c_ends_with_code_130(catena: Catena, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluate, "run", interrupt)
    said = catena("evaluate")
    assert (said.code, said.sentence) == (130, "interrupted")


def test_a_closed_pipe_is_no_error(trained: Path, files: Path, tmp_path: Path) -> None:
    many = tmp_path / "many.txt"
    many.write_text("will it rain tomorrow\n" * 20_000, encoding="utf-8")  # more than a pipe holds
    command = [sys.executable, "-m", "catena", "predict", str(trained), str(many)]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"weather\t")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


def test_a_training_goes_on_where_both_its_outputs_are_closed(files: Path, tmp_path: Path) -> None:
    train = [sys.executable, "-m", "catena", "train", str(files / "train.tsv"), "--model", "loglinear"]
    command = [*train, "--max-epochs", "2", "-o", str(tmp_path / "run")]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 0
    assert (tmp_path / "run" / "best").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["evaluate", "RUN", "FILE", "--json"], "there is no flag --json: did you mean --format json?"),
        (["predict", "RUN", "FILE", "--json"], "there is no flag --json: did you mean --format jsonl?"),
        (["score", "RUN", "FILE", "--jsonl"], "there is no flag --jsonl: did you mean --format jsonl?"),
        (["embed", "convert", "FILE", "--json"], "there is no flag --json: see 'catena embed convert --help'"),
        (["inspect", "RUN", "--nonsense"], "there is no flag --nonsense: see 'catena inspect --help'"),
    ],
)
def test_json_is_a_format_in_every_verb_that_has_it(catena: Catena, words: list[str], sentence: str) -> None:
    said = catena(*words)
    assert (said.code, said.sentence) == (2, sentence)


def test_python_m_catena_gives_its_exit_code() -> None:
    assert in_process_of_its_own("nonsense").returncode == 2


def test_help_lists_the_kinds_that_a_section_may_have_in_its_place(catena: Catena) -> None:
    said = catena("train", "lm", "--model", "lstm", "--help")
    assert "--model.encoder dilated" not in said.out, "those are kinds of the encoder of another model"
    assert "  --model.output softmax|adaptive|" in said.out
    said = catena("train", "lm", "--model", "convolution", "--help")
    assert "  --model.encoder dilated|convolution (default: dilated)" in said.out
