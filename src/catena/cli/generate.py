"""``catena generate RUN [PROMPTS…]``: write text with a language model, by any search, under wishes."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from catena.cli.flags import Machine, arg, parse_flags, take_keys
from catena.cli.usage import UsageError
from catena.config import Config, override, parse
from catena.decoding.settings import SampleSettings, SearchLimits, SearchSettings

if TYPE_CHECKING:
    from catena.tasks.lm.generate import Written
    from catena.tasks.lm.predictor import LmPredictor

USAGE = "catena generate RUN [PROMPTS…]"
ABOUT = "Write text with a language model, after each prompt or, without one, from the beginning of a text."


class GenerateConfig(Config):
    """How text is written."""

    search: SearchSettings = SampleSettings()
    """The search that chooses the tokens."""


@dataclass(frozen=True)
class GenerateFlags(Machine):
    run: Annotated[tyro.conf.Positional[Path], arg("RUN")]
    """The run or checkpoint folder of a language model."""
    prompts: Annotated[tyro.conf.Positional[tuple[str, ...]], arg("PROMPTS…")] = ()
    """What texts begin with."""
    file: Annotated[Path | None, arg("FILE")] = None
    """A file of prompts, one a line."""
    word: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], arg("TEXT")] = ()
    """A word or phrase that every text must hold; give the flag again for more."""
    without: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], arg("TEXT")] = ()
    """A word or phrase that no text may hold; give the flag again for more."""
    pattern: Annotated[str | None, arg("REGEX")] = None
    """A regular expression that must match each whole text, its prompt left out."""
    unknown: bool = False
    """Write <unk> where the model would; otherwise words that it knows alone are written."""
    fuse: Annotated[Path | None, arg("RUN")] = None
    """A second language model over the same vocabulary that has a say (shallow fusion)."""
    fuse_weight: Annotated[float, arg("W", shown="(default: 0.3)")] = 0.3
    """How much its log-probabilities count."""
    format: Annotated[Literal["text", "tsv", "jsonl"], arg(shown="(default: text)")] = "text"
    """text: the texts; tsv: log-probability and text; jsonl: prompt, text, score, tokens."""


def run(argv: Sequence[str]) -> int:
    keys, rest = take_keys(GenerateConfig, GenerateFlags, argv)
    flags = parse_flags(GenerateFlags, rest, USAGE, ABOUT, GenerateConfig, override({}, keys))
    config = parse(GenerateConfig, override({}, keys), source="the command line")
    if flags.fuse_weight < 0:
        raise UsageError(f"--fuse-weight must be 0 or more, and is {flags.fuse_weight}")

    from catena.cli.machine import open_model
    from catena.randomness import Randomness
    from catena.tasks.lm.generate import Fused, Wishes, Writer

    model = _language_model(open_model(flags.run, flags), flags.run)
    fused = None
    if flags.fuse is not None:
        fused = Fused(_language_model(open_model(flags.fuse, flags), flags.fuse), flags.fuse_weight)
    prompts = _prompts(flags, model)
    writer = Writer(
        model, config.search, Wishes(flags.word, flags.without, flags.pattern), fused, unknown=flags.unknown
    )
    generator = Randomness(flags.seed).torch("generate")
    if flags.format == "text" and len(prompts) == 1 and _writes_one(config.search):
        sys.stdout.write(prompts[0])
        for piece in writer.stream(prompts[0], generator):
            sys.stdout.write(piece)
            sys.stdout.flush()
        sys.stdout.write("\n")
        return 0
    for row in writer.write(prompts, generator):
        for one in row:
            sys.stdout.write(_line(one, flags.format) + "\n")
    return 0


def _writes_one(search: SearchLimits) -> bool:
    """Whether a search writes one text for a prompt."""
    return getattr(search, "n", 1) == getattr(search, "n_best", 1) == 1


def _language_model(model: object, folder: Path) -> LmPredictor:
    from catena.tasks.lm.predictor import LmPredictor

    if not isinstance(model, LmPredictor):
        raise UsageError(f"{folder} is no language model: train one with 'catena train lm'")
    return model


def _prompts(flags: GenerateFlags, model: LmPredictor) -> list[str]:
    if flags.file is None:
        return list(flags.prompts) or [""]
    return [*flags.prompts, *model.read_inputs(flags.file)]


def _line(one: Written, format: str) -> str:
    whole = one.prompt + one.text
    if format == "text":
        return whole
    if format == "tsv":
        return f"{one.hypothesis.log_prob:.4f}\t{' '.join(whole.split())}"
    found = {
        "prompt": one.prompt,
        "text": one.text,
        "log_prob": round(one.hypothesis.log_prob, 6),
        "score": round(one.hypothesis.score, 6),
        "finished": one.hypothesis.finished,
        "tokens": list(one.tokens),
    }
    return json.dumps(found, ensure_ascii=False)
