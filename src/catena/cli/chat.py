"""``catena chat RUN``: talk with a trained model of conversation, or with a file of contexts and responses."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from catena.cli.flags import DeviceFlags, arg, parse_flags, take_keys
from catena.cli.usage import UsageError
from catena.cli.weights import WeightFlags
from catena.config import Config, override, parse
from catena.registry import nearest
from catena.search.config import SampleConfig, SearchConfig

if TYPE_CHECKING:
    from catena.tasks.converse.predictor import ConversePredictor

_USAGE = "catena chat RUN"
_ABOUT = "Talk with a model of conversation. /help shows the commands, /quit ends it; lines may be piped in."


class ChatConfig(Config):
    """How a model that writes chooses its words."""

    search: SearchConfig = SampleConfig(max_length=40, top_p=0.9)
    """The search; if no flag of it is given, that of the model's own config."""


@dataclass(frozen=True)
class ChatFlags(WeightFlags, DeviceFlags):
    """Who answers, and how what is read is encoded."""

    run: Annotated[tyro.conf.Positional[Path], arg("RUN|FILE")]
    """The run folder of a model of conversation; or a file of conversations, such as lines of context<TAB>response,
    which is searched as it is, without training."""
    encoding: Annotated[str | None, arg("NAME")] = None
    """Encoding of a file, and of what is piped in, if it is not UTF-8, such as latin-1."""
    context_column: Annotated[str | None, arg("NAME")] = None
    """Of a file: the column or key that holds what is said, by its name or its number from 1; found if not set."""
    response_column: Annotated[str | None, arg("NAME")] = None
    """Of a file: the column or key that holds what is said to it."""


def run(argv: Sequence[str]) -> int:
    """Answer each line that is typed or piped in, until the input ends."""
    keys, rest = take_keys(ChatConfig, ChatFlags, argv)
    flags = parse_flags(ChatFlags, rest, _USAGE, _ABOUT, ChatConfig, override({}, keys))
    config = parse(ChatConfig, override({}, keys), source="the command line")
    model = _model(flags)

    from catena.tasks.converse.chat import Chat
    from catena.tasks.converse.generative import WritingPredictor

    if keys and not isinstance(model, WritingPredictor):
        raise UsageError(
            f"--{keys[0][0].dotted.removesuffix('.kind')} is for models that write, and {flags.run} chooses its "
            f"responses: leave it out"
        )
    from catena.cli.predict import stdin_is_terminal

    chat = Chat(model, config.search if keys else None, flags.seed)
    _talk(chat, stdin_is_terminal(), flags.encoding or "utf-8")
    return 0


def _model(flags: ChatFlags) -> ConversePredictor:
    from catena.cli.machine import open_model
    from catena.data.readers.names import PairColumns
    from catena.tasks.converse.chat import model_of_file
    from catena.tasks.converse.predictor import ConversePredictor

    if flags.run.is_file():
        if flags.quantization is not None:
            raise UsageError(f"--quantization is for runs of networks, and {flags.run} is searched as it is")
        if (flags.context_column is None) != (flags.response_column is None):
            raise UsageError("--context-column and --response-column belong together: give both, or neither")
        return model_of_file(flags.run, flags.encoding, PairColumns(flags.context_column, flags.response_column))
    if not flags.run.exists():
        raise UsageError(
            f"there is neither a run nor a file {flags.run}: {_near(flags.run)}name the folder that 'catena train "
            f"converse' wrote, or a file of lines of context<TAB>response"
        )
    if flags.context_column is not None or flags.response_column is not None:
        raise UsageError(
            f"--context-column and --response-column are for files, and {flags.run} is none: leave them out"
        )
    model = open_model(flags.run, flags)
    if not isinstance(model, ConversePredictor):
        task = getattr(getattr(model, "config", None), "task", "another task")
        raise UsageError(
            f"{flags.run} is a model of {task}, and does not converse: train one with 'catena train converse'"
        )
    return model


def _near(path: Path) -> str:
    """The question whether something beside it was meant."""
    try:
        close = nearest(path.name, sorted(beside.name for beside in path.parent.iterdir()))
    except OSError:
        return ""
    return f"did you mean {' or '.join(str(path.parent / name) for name in close)}? Else " if close else ""


def _talk(chat: Any, typed: bool, encoding: str) -> None:
    from catena.cli.predict import standard_input

    lines = standard_input(encoding)
    if typed:
        sys.stdout.write("Say something; /help shows the commands.\n")
    while not chat.ended:
        if typed:
            sys.stdout.write("> ")
        sys.stdout.flush()
        line = next(lines, None)
        if line is None:
            sys.stdout.write("\n" * typed)  # the next prompt of the shell stands on a line of its own
            break
        answer = chat.say(line)
        if answer is not None:
            sys.stdout.write(answer + "\n")
