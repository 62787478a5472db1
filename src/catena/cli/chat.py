"""``catena chat RUN``, a conversation with a trained model or with a file of contexts and responses."""

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
_ABOUT = "Chat with a conversation model. Type /help for the commands and /quit to leave. Input may be piped."


class ChatConfig(Config):
    """How a generative model chooses its words."""

    search: SearchConfig = SampleConfig(max_length=40, top_p=0.9)
    """The search. Without any search option, the search in the model's config is used."""


@dataclass(frozen=True)
class ChatFlags(WeightFlags, DeviceFlags):
    """Options of ``catena chat``."""

    run: Annotated[tyro.conf.Positional[Path], arg("RUN|FILE")]
    """Run folder of a conversation model, or a file of conversations (lines of context<TAB>response), which is searched
    without training."""
    encoding: Annotated[str | None, arg("NAME")] = None
    """Encoding of the file and of piped input, such as latin-1. Default: UTF-8."""
    context_column: Annotated[str | None, arg("NAME")] = None
    """For a file: column or key of the context, by name or by number from 1. Detected if not set."""
    response_column: Annotated[str | None, arg("NAME")] = None
    """For a file: column or key of the response."""


def run(argv: Sequence[str]) -> int:
    """Respond to each typed or piped line until the input ends."""
    keys, rest = take_keys(ChatConfig, ChatFlags, argv)
    flags = parse_flags(ChatFlags, rest, _USAGE, _ABOUT, ChatConfig, override({}, keys))
    config = parse(ChatConfig, override({}, keys), source="the command line")
    model = _model(flags)

    from catena.tasks.converse.chat import Chat
    from catena.tasks.converse.generative import WritingPredictor

    if keys and not isinstance(model, WritingPredictor):
        raise UsageError(
            f"--{keys[0][0].dotted.removesuffix('.kind')} works only with generative models, and {flags.run} retrieves "
            f"its responses. Remove the option."
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
            raise UsageError(
                f"--quantization works only with trained networks, and {flags.run} is a file. Remove the option."
            )
        if (flags.context_column is None) != (flags.response_column is None):
            raise UsageError(
                "--context-column and --response-column must be set together, got one. Set both or neither."
            )
        return model_of_file(flags.run, flags.encoding, PairColumns(flags.context_column, flags.response_column))
    if not flags.run.exists():
        raise UsageError(
            f"Run or file not found: {flags.run}. {_near(flags.run)}Pass the folder that 'catena train converse' "
            f"wrote, or a file with lines of context<TAB>response."
        )
    if flags.context_column is not None or flags.response_column is not None:
        raise UsageError(
            f"--context-column and --response-column work only with files, and {flags.run} is a run. Remove them."
        )
    model = open_model(flags.run, flags)
    if not isinstance(model, ConversePredictor):
        task = getattr(getattr(model, "config", None), "task", "another task")
        raise UsageError(
            f"{flags.run} must be a conversation model, got a model of {task}. Train one with 'catena train converse'."
        )
    return model


def _near(path: Path) -> str:
    """A question with the names of similar files in the same folder, or an empty string."""
    try:
        close = nearest(path.name, sorted(beside.name for beside in path.parent.iterdir()))
    except OSError:
        return ""
    return f"Did you mean {' or '.join(str(path.parent / name) for name in close)}? Otherwise: " if close else ""


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
            sys.stdout.write("\n" * typed)  # so that the shell's prompt starts on a new line
            break
        answer = chat.say(line)
        if answer is not None:
            sys.stdout.write(answer + "\n")
