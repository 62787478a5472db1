"""The entry point: fast help, exit codes, and one sentence for every error."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from catena.cli import doctor, evaluate
from catena.cli.main import COMMANDS, main
from catena.errors import CheckpointError
from catena.version import __version__
from tests.cli.conftest import Catena, environment, in_process_of_its_own, matches


def test_help_lists_every_command(catena: Catena) -> None:
    for words in ([], ["--help"], ["-h"], ["help"]):
        said = catena(*words)
        assert said.code == 0
        for verb in COMMANDS:
            assert re.search(rf"^  {verb} +[A-Z]", said.out, re.M)


def test_every_command_has_a_module() -> None:
    cli = Path(doctor.__file__).parent
    assert {path.stem for path in cli.glob("*.py")} >= set(COMMANDS)


@pytest.mark.parametrize("verb", COMMANDS)
def test_help_of_each_command_is_readable(catena: Catena, verb: str) -> None:
    said = catena(verb, "--help")
    assert said.code == 0
    assert re.search(rf"^usage: catena {verb}\b", said.out, re.M)
    assert said.err == ""
    assert "{None}" not in said.out, "how Python writes a type is not help"
    assert "(default: )" not in said.out
    assert "default: None" not in said.out
    assert max(map(len, said.out.splitlines())) <= 120
    assert catena("help", verb).out == said.out


def test_config_help_follows_selected_model(catena: Catena) -> None:
    words = ("train", "classify", "--help-all")
    of_cnn, of_gru = catena(*words).out, catena(*words, "--model", "recurrent").out
    assert "--filters N (default: 100)" in of_cnn
    assert "--cell " not in of_cnn
    assert "--cell NAME" in of_gru
    assert "--filters" not in of_gru
    assert "--learning-rate X (default: 0.002)" in of_gru, "what suits this model"
    assert "--lowercase (default: true)" in of_cnn, "as the task has it, not the tokenizer"


def test_help_and_init_do_not_import_torch() -> None:
    code = (
        "import sys\n"
        "from catena.cli.main import COMMANDS, main\n"
        "helps = [[verb, '--help'] for verb in COMMANDS]\n"
        "for words in (['--help'], *helps, ['init', 'classify'], ['train', 'nowhere.tsv']):\n"
        "    main(words)\n"
        "    assert not {'torch', 'numba', 'sklearn'} & set(sys.modules), words\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_main_help_imports_few_modules() -> None:
    code = "import sys; from catena.cli.main import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert {"pydantic", "rich", "numpy"}.isdisjoint(done.stderr.split())


@pytest.mark.parametrize("verb", ["predict", "score", "correct", "draw", "generate"])
def test_help_shows_optional_arguments(catena: Catena, verb: str) -> None:
    assert re.search(r"^usage: .* RUN \[(FILE|TEXT …|PROMPTS…)\] \[--options\]$", catena(verb, "--help").out, re.M)


def test_version(catena: Catena) -> None:
    for word in ("--version", "-V", "version"):
        assert catena(word).out == f"catena {__version__}\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["trian"], "Unknown command 'trian': did you mean 'train'?"),
        (["frobnicate"], "Unknown command 'frobnicate': 25 names are known, …"),
        (["--hlep"], "Unknown command '--hlep': …"),
        (["evaluate"], "RUN is missing. Usage: catena evaluate RUN FILE [--options]."),
        (["evaluate", "run"], "FILE is missing. Usage: catena evaluate RUN FILE [--options]."),
        (["evaluate", "run", "a", "b"], "Unexpected argument 'b'. Usage: catena evaluate RUN FILE [--options]."),
        (["evaluate", "run", "a", "b", "c"], "Unexpected argument 'b'. Usage: catena evaluate RUN FILE [--options]."),
        (["evaluate", "run", "a", "-x"], "Unknown option -x. See --help."),
        (["evaluate", "run", "a", "--thread", "1"], "Unknown option --thread. Did you mean --threads?"),
        (["evaluate", "run", "a", "--threads"], "--threads requires a value: int or none. Add one."),
        (["evaluate", "run", "a", "--threads", "x"], "--threads must be an integer, got 'x'. See --help."),
        (["evaluate", "run", "a", "--threads", "0"], "--threads must be 1 or more, got 0. See --help."),
        (["evaluate", "run", "a", "--seed", "-1"], "--seed must be 0 or more, got -1. See --help."),
        (["evaluate", "run", "a", "--format", "xml"], "--format is 'xml': known are 'json', 'text'. See --help."),
        (
            ["evaluate", "run", "a", "--wrong", "--worse"],
            "Unknown option --wrong. See --help. Unknown option --worse. …",
        ),
        (["resume"], "RUN is missing. Usage: catena resume RUN [--options]."),
        (["predict"], "RUN is missing. Usage: catena predict RUN [FILE] [--options]."),
        (["compare", "a", "b"], "FILE is missing. Usage: catena compare RUN_A RUN_B FILE [--options]."),
        (["init"], "TASK is missing. Use one of classify, …"),
        (["doctor", "me"], "Unexpected argument 'me'. Usage: catena doctor."),
    ],
)
def test_wrong_usage_exits_with_code_2_and_one_sentence(catena: Catena, words: list[str], sentence: str) -> None:
    said = catena(*words)
    assert said.code == 2
    assert said.out == ""
    assert matches(said.sentence, sentence)


def test_underscores_in_options_work_like_hyphens(catena: Catena) -> None:
    assert catena("init", "classify", "--max_length", "7").out == catena("init", "classify", "--max-length", "7").out


def test_internal_error_prints_one_sentence_and_writes_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> int:
        raise TypeError("something\nunforeseen")

    monkeypatch.setattr(evaluate, "run", fail)
    assert main(["evaluate"]) == 1
    said = capsys.readouterr().err
    found = re.fullmatch(
        r"catena evaluate: Internal error, TypeError: something unforeseen\. Please report it together with (\S+)\.\n",
        said,
    )
    assert found
    trace = Path(found[1])
    assert "in fail" in trace.read_text(encoding="utf-8")
    trace.unlink()


def test_debug_raises(trained: Path) -> None:
    with pytest.raises(CheckpointError, match="Run or checkpoint not found"):
        main(["evaluate", "nowhere", "file", "--debug"])


def test_system_error_prints_one_sentence(catena: Catena, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> int:
        raise OSError(28, "No space left on device", "runs/x")

    monkeypatch.setattr(evaluate, "run", fail)
    said = catena("evaluate")
    assert (said.code, said.sentence.partition(". ")[0]) == (1, "Cannot use runs/x: No space left on device")


def test_ctrl_c_exits_with_code_130(catena: Catena, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluate, "run", interrupt)
    said = catena("evaluate")
    assert (said.code, said.sentence) == (130, "interrupted")


def test_closed_pipe_is_not_an_error(trained: Path, files: Path, tmp_path: Path) -> None:
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


def test_training_continues_if_both_outputs_are_closed(files: Path, tmp_path: Path) -> None:
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
        (["evaluate", "RUN", "FILE", "--json"], "Unknown option --json. Did you mean --format json?"),
        (["predict", "RUN", "FILE", "--json"], "Unknown option --json. Did you mean --format jsonl?"),
        (["score", "RUN", "FILE", "--jsonl"], "Unknown option --jsonl. Did you mean --format jsonl?"),
        (["vectors", "convert", "FILE", "--json"], "Unknown option --json. See --help."),
        (["inspect", "RUN", "--nonsense"], "Unknown option --nonsense. See --help."),
    ],
)
def test_json_option_suggests_format_option(catena: Catena, words: list[str], sentence: str) -> None:
    said = catena(*words)
    assert (said.code, said.sentence) == (2, sentence)


def test_python_m_catena_returns_exit_code() -> None:
    assert in_process_of_its_own("nonsense").returncode == 2


def test_help_lists_kinds_of_nested_sections(catena: Catena) -> None:
    of_lstm = catena("train", "lm", "--model", "lstm", "--help-all").out
    assert "One of: softmax, adaptive," in of_lstm
    assert "dilated|convolution" not in of_lstm, "the kinds of another model's encoder"
    assert "--encoder dilated|convolution" in catena("train", "lm", "--model", "convolution", "--help-all").out
