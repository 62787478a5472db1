"""``catena chat RUN``, a conversation with a trained model or with a file of contexts and responses."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from catena.cli.common import WeightOptions, open_task, parse_or_help, stdin_is_terminal, typed_lines
from catena.cli.parser import Arg, CommandLine, Section, UsageError
from catena.config import Config, parse
from catena.files import escape_controls
from catena.registry import nearest
from catena.search.config import SampleConfig, SearchConfig

if TYPE_CHECKING:
    from catena.tasks.converse.chat import Chat
    from catena.tasks.converse.task import ConverseTask


class ChatConfig(Config):
    """How a generative model chooses its words."""

    search: SearchConfig = SampleConfig(max_length=40, top_p=0.9)
    """The search. Without any search option, the search in the model's config is used."""


class ChatCommand(WeightOptions):
    """Chat with a conversation model. Type /help for the commands and /quit to leave. Input may be piped."""

    usage = "catena chat RUN|FILE [--options]"
    example = "catena chat faq.tsv"

    run: Annotated[Path, Arg("RUN|FILE", positional=True)]
    """Run folder of a conversation model, or a file of conversations (lines of context<TAB>response), which is searched
    without training."""
    encoding: Annotated[str | None, Arg("NAME")] = None
    """Encoding of the file and of piped input, such as latin-1. Default: UTF-8."""
    context_column: Annotated[str | None, Arg("NAME")] = None
    """For a file: column or key of the context, by name or by number from 1. Detected if not set."""
    response_column: Annotated[str | None, Arg("NAME")] = None
    """For a file: column or key of the response."""


_GROUPS = {
    "Input": ("run", "encoding", "context_column", "response_column"),
    "Search": ("search", "temperature", "top_k", "top_p", "beam_size", "max_length", "min_length"),
    "Run": ("device", "threads", "seed", "quantization"),
}


def run(argv: Sequence[str]) -> int:
    """Respond to each typed or piped line until the input ends."""
    options, (values,) = parse_or_help(CommandLine(ChatCommand, argv), [Section(ChatConfig, title="Search")], _GROUPS)
    config = parse(ChatConfig, values, source="the command line")
    model = _model(options)

    from catena.tasks.converse.chat import Chat

    if values and not model.generates:
        name = next(iter(values["search"])).replace("_", "-")
        raise UsageError(
            f"--{'search' if name == 'kind' else name} works only with generative models, and {options.run} retrieves "
            f"its responses. Remove the option."
        )
    chat = Chat(model, config.search if values else None, options.seed)
    _talk(chat, stdin_is_terminal(), options.encoding or "utf-8")
    return 0


def _model(options: ChatCommand) -> ConverseTask[Any]:
    from catena.tasks.converse.chat import model_of_file
    from catena.tasks.converse.task import ConverseTask

    columns = {"context": options.context_column, "response": options.response_column}
    if options.run.is_file():
        if options.quantization is not None:
            raise UsageError(
                f"--quantization works only with trained networks, and {options.run} is a file. Remove the option."
            )
        if (options.context_column is None) != (options.response_column is None):
            raise UsageError(
                "--context-column and --response-column must be set together, got one. Set both or neither."
            )
        return model_of_file(options.run, options.encoding, columns)
    if not options.run.exists():
        raise UsageError(
            f"Run or file not found: {options.run}. {_near(options.run)}Pass the folder that 'catena train converse' "
            f"wrote, or a file with lines of context<TAB>response."
        )
    if any(columns.values()):
        raise UsageError(
            f"--context-column and --response-column work only with files, and {options.run} is a run. Remove them."
        )
    model = open_task(options.run, options)
    if not isinstance(model, ConverseTask):
        raise UsageError(
            f"{options.run} must be a conversation model, got a model of {model.name}. Train one with 'catena train "
            f"converse'."
        )
    return model


def _near(path: Path) -> str:
    """A question with the names of similar files in the same folder, or an empty string."""
    try:
        close = nearest(path.name, sorted(beside.name for beside in path.parent.iterdir()))
    except OSError:
        return ""
    return f"Did you mean {' or '.join(str(path.parent / name) for name in close)}? Otherwise: " if close else ""


def _talk(chat: Chat, typed: bool, encoding: str) -> None:
    lines = typed_lines(encoding)
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
        output = chat.say(line)
        if output is not None:
            sys.stdout.write(escape_controls(output) + "\n")
