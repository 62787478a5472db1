"""``catena VERB …``: finds the verb, answers help at once, and turns errors into one clear sentence.

Imports neither torch nor any verb before it is asked for: ``catena --help`` must answer in half a second, and a package
that one verb lacks must not break another.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from catena.errors import CatenaError
from catena.registry import did_you_mean
from catena.version import __version__

VERBS = {
    "train": "Train a model: catena train [TASK] FILES… [--flags]",
    "resume": "Go on with a run that was stopped, exactly where it was",
    "evaluate": "Score a trained model on labelled data",
    "predict": "Predict for a file or standard input",
    "inspect": "Look at data files (the data doctor), or inside a run",
    "init": "Write a commented config for a task",
    "compare": "Test whether one run is better than another (paired bootstrap)",
    "average": "Average the weights of several checkpoints",
    "doctor": "Check this installation: versions, devices, optional packages",
    "demo": "Train, evaluate and show a small model on the corpus that comes with Catena",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 an error that is said, 2 wrong usage, 130 interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(_help() + "\n")
        return 0
    if arguments[0] in ("-V", "--version", "version"):
        sys.stdout.write(f"catena {__version__}\n")
        return 0
    verb, rest = arguments[0], arguments[1:]
    if verb not in VERBS:
        sys.stderr.write(f"catena: there is no verb {verb!r}: {did_you_mean(verb, VERBS)}\n")
        return 2
    debug = "--debug" in rest
    rest = [word for word in rest if word != "--debug"]
    try:
        return int(importlib.import_module(f"catena.cli.{verb}").run(rest))
    except CatenaError as error:
        if debug:
            raise
        sys.stderr.write(f"catena {verb}: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write(f"catena {verb}: interrupted\n")
        return 130
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _help() -> str:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {words}" for verb, words in VERBS.items())
    return (
        f"Catena {__version__}: sequence models on your own machine.\n\n"
        f"usage: catena VERB [ARGUMENTS] [--flags]\n\n{verbs}\n\n"
        "'catena VERB --help' tells more of a verb; --debug shows the traceback of an error.\n"
        "A first run: catena demo"
    )
