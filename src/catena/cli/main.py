"""``catena COMMAND …``, the entry point, which runs a command and prints errors as one sentence.

Neither torch nor a command is imported before it is needed. So ``catena --help`` prints in half a second, and a package
missing for one command does not break another.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Sequence
from typing import TextIO

from catena.errors import CatenaError
from catena.files import escape_controls
from catena.registry import did_you_mean
from catena.version import __version__

# The collections of an exiting interpreter, which visit every object of torch's modules, take a quarter of the CPU
# time of a short command. The memory is returned by the end of the process.
atexit.register(gc.freeze)

COMMANDS = {
    "train": "Train a model: catena train [TASK] FILES… [--options]",
    "resume": "Resume an interrupted run exactly where it stopped, or train it for longer",
    "vectors": "Query, evaluate, plot and convert word vectors",
    "evaluate": "Score a trained model on a labeled file",
    "predict": "Predict for a file or standard input",
    "draw": "Draw predictions: tags, trees, arcs, attention",
    "answer": "Answer questions from a text or a folder of texts with a reader",
    "chat": "Chat with a conversation model, or with a file of questions and answers",
    "play": "Train an agent in an environment (CartPole-v1, your own), or show a trained one",
    "generate": "Generate text with a language model, from a prompt or from scratch",
    "compose": "Write verse on a topic and in a form (sonnet, quatrain) with a language model",
    "correct": "Correct spelling in a file or standard input with a language model",
    "score": "Log-probability and perplexity of texts under a language model",
    "spot": "Find where a keyword or another class of sounds occurs in recordings",
    "style": "Paint a picture in the style of another",
    "texture": "Make a new picture with the texture of a sample",
    "inspect": "Check data files, or describe a run",
    "init": "Write a commented config for a task",
    "tune": "Search for the best values of config options within a time limit",
    "compare": "Test whether one run is significantly better than another",
    "diagnose": "Check whether the gradients of a language model vanish or explode, and the curvature of its loss",
    "average": "Average the weights of several checkpoints",
    "export": "Export a model: translation models to CTranslate2 or ONNX, n-gram models to ARPA",
    "doctor": "Check this installation: versions, devices, optional packages",
    "demo": "Train, evaluate and query a small model on the corpus that comes with Catena",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 success, 1 error, 2 wrong usage, 130 interrupted."""
    words = list(sys.argv[1:] if argv is None else argv)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that cannot print ✓ must not stop training
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            code = _answer(words)
        sys.stdout.flush()  # a closed pipe can be handled here, but not when the interpreter exits
        return code
    except BrokenPipeError:  # the reader of our output, such as `head`, has stopped
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return _complain(words, "interrupted", 130)
    except Exception as error:
        if debug:
            raise
        if isinstance(error, CatenaError):
            return _complain(words, str(error), getattr(error, "exit_code", 1))
        if isinstance(error, OSError):
            return _complain(words, _words_of(error), 1)
        return _complain(words, _fault(error), 1)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning without the line of the source that raised it."""
    sys.stderr.write(f"warning: {escape_controls(str(message))}\n")


def _answer(words: list[str]) -> int:
    if words[:1] == ["help"]:
        words = [*words[1:2], "--help"]
    if not words or words[0] in ("-h", "--help"):
        sys.stdout.write(_help() + "\n")
        return 0
    if words[0] in ("-V", "--version", "version"):
        sys.stdout.write(f"catena {__version__}\n")
        return 0
    command, rest = words[0], words[1:]
    if command not in COMMANDS:
        return _complain([], f"Unknown command {command!r}: {did_you_mean(command, COMMANDS)}", 2)
    try:
        return int(importlib.import_module(f"catena.cli.{command}").run(rest))
    except SystemExit as end:  # after --help
        return int(end.code or 0)


def _complain(words: Sequence[str], sentence: str, code: int) -> int:
    sys.stdout.flush()
    sys.stderr.write(f"{' '.join(['catena', *words[:1]])}: {escape_controls(sentence)}\n")
    return code


def _words_of(error: OSError) -> str:
    """The message of a system error, such as a full disk or a folder without write permission."""
    if error.filename is None:
        return f"{error.strerror or error}. Check the disk space and the limit on file sizes (ulimit -f)."
    return f"Cannot use {error.filename}: {error.strerror}. Check the path, its permissions and the disk space."


def _fault(error: Exception) -> str:
    handle, path = tempfile.mkstemp(prefix="catena-fault-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write("".join(traceback.format_exception(error)))
    said = " ".join(str(error).split())[:300]
    return f"Internal error, {type(error).__name__}: {said}. Please report it together with {path}."


def _help() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:<{width}}  {words}" for name, words in COMMANDS.items())
    return (
        f"Catena {__version__}: sequence models on your own machine.\n\n"
        f"usage: catena COMMAND [ARGUMENTS] [--options]\n\n{commands}\n\n"
        "See 'catena COMMAND --help' for the options of a command. --debug shows the traceback of an error.\n"
        "To get started: catena demo"
    )
