"""``catena VERB …``: finds the verb, answers help at once, and turns errors into one clear sentence.

Imports neither torch nor any verb before it is asked for: ``catena --help`` must answer in half a second, and a package
that one verb lacks must not break another.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence

from catena.errors import CatenaError
from catena.registry import did_you_mean
from catena.version import __version__

VERBS = {
    "train": "Train a model: catena train [TASK] FILES… [--flags]",
    "resume": "Continue a run that was stopped, exactly where it was, or train it for longer",
    "embed": "Word vectors: train them, ask for neighbors and analogies, score them, map them",
    "evaluate": "Score a trained model on a file with the right answers",
    "predict": "Predict for a file or standard input",
    "draw": "Draw a picture of a prediction: tags, trees, arcs",
    "chat": "Talk with a model of conversation, or with a file of questions and answers",
    "generate": "Write text with a language model, after a prompt",
    "compose": "Write verse in a form and on a topic with a language model: sonnets, quatrains",
    "correct": "Correct the text of a file or standard input with a language model",
    "score": "Log-probability and perplexity of texts under a language model",
    "inspect": "Look at data files (the data doctor), or inside a run",
    "init": "Write a commented config for a task",
    "compare": "Test whether one run is better than another (paired bootstrap)",
    "diagnose": "See whether the gradients of a language model vanish or explode, and how curved its loss is",
    "average": "Average the weights of several checkpoints",
    "export": "Write a model in the form of another program: translators as CTranslate2 or ONNX, n-grams as ARPA",
    "doctor": "Check this installation: versions, devices, optional packages",
    "demo": "Train, evaluate and ask a small model, on the corpus that comes with Catena",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 an error that is said, 2 wrong usage, 130 interrupted."""
    words = list(sys.argv[1:] if argv is None else argv)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without ✓ must not end a training
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        code = _answer(words)
        sys.stdout.flush()  # here a closed pipe can be answered, at the interpreter's end it cannot
        return code
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
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


def _answer(words: list[str]) -> int:
    if words[:1] == ["help"]:
        words = [*words[1:2], "--help"]
    if not words or words[0] in ("-h", "--help"):
        sys.stdout.write(_help() + "\n")
        return 0
    if words[0] in ("-V", "--version", "version"):
        sys.stdout.write(f"catena {__version__}\n")
        return 0
    verb, rest = words[0], words[1:]
    if verb not in VERBS:
        return _complain([], f"there is no verb {verb!r}: {did_you_mean(verb, VERBS)}", 2)
    try:
        return int(importlib.import_module(f"catena.cli.{verb}").run(rest))
    except SystemExit as end:  # after --help
        return int(end.code or 0)


def _complain(words: Sequence[str], sentence: str, code: int) -> int:
    sys.stdout.flush()
    sys.stderr.write(f"{' '.join(['catena', *words[:1]])}: {sentence}\n")
    return code


def _words_of(error: OSError) -> str:
    """What the system could not do: a full disk, a folder that may not be written to."""
    if error.filename is None:
        return str(error.strerror or error)
    return f"{error.filename} cannot be used: {error.strerror}. Check the name, the rights and the space on the disk"


def _fault(error: Exception) -> str:
    handle, path = tempfile.mkstemp(prefix="catena-fault-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write("".join(traceback.format_exception(error)))
    said = " ".join(str(error).split())[:300]
    return f"a fault of Catena itself, {type(error).__name__}: {said}. Please report it, with {path}"


def _help() -> str:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {words}" for verb, words in VERBS.items())
    return (
        f"Catena {__version__}: sequence models on your own machine.\n\n"
        f"usage: catena VERB [ARGUMENTS] [--flags]\n\n{verbs}\n\n"
        "'catena VERB --help' tells more of a verb; --debug shows the traceback of an error.\n"
        "A first run: catena demo"
    )
