"""``catena score RUN [FILE]``, the log-probability of each text or recording under a language model, and totals."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from catena.accelerators import start_cold
from catena.cli.common import (
    RunCommand,
    WeightOptions,
    check_writable,
    input_file,
    stdin_is_terminal,
    typed_lines,
    warn,
    write_output,
)
from catena.cli.parser import Arg, UsageError
from catena.errors import DataError

if TYPE_CHECKING:
    from catena.tasks.lm.predict import ScoredText
    from catena.tasks.lm.sound.task import SoundLmTask
    from catena.tasks.lm.task import LmTask


class ScoreCommand(WeightOptions):
    """Log-probability, perplexity and bits of each text or recording and of all. Each is scored independently."""

    usage = "catena score RUN [FILE] [--options]"
    example = "catena score runs/lm sentences.txt --format tsv -o scores.tsv"

    run: Annotated[Path, Arg("RUN", positional=True)]
    """Run or checkpoint folder of a language model."""
    file: Annotated[str, Arg("[FILE]", positional=True)] = "-"
    """File with one text per line; for a model of recordings, a sound file, a folder or a table. - or nothing: standard
    input."""
    tokens: bool = False
    """Also show each token with its log-probability. Unknown tokens are marked <unk>."""
    format: Literal["text", "tsv", "csv", "jsonl"] = "text"
    """text: readable lines; tsv and csv: log-probability, perplexity, text; jsonl: all details. With these, totals are
    printed to standard error."""
    output: Annotated[Path | None, Arg("FILE", "-o")] = None
    """Output file. Default: standard output."""


@start_cold()
def run(argv: Sequence[str]) -> int:
    """Write the log-probability of each text and the totals."""
    command = RunCommand(ScoreCommand, argv, predicts=False)
    options = command.options
    if options.output is not None:
        check_writable(options.output, "scores.tsv", options.file)

    from catena.tasks.lm.task import LmTask

    model: Any = command.open()
    if not isinstance(model, LmTask):
        from catena.tasks.lm.sound.task import SoundLmTask

        if isinstance(model, SoundLmTask):
            return _score_sounds(model, options)
        raise UsageError(f"{options.run} is not a language model. Train one with 'catena train lm'.")
    totals = Totals()
    with ExitStack() as stack:
        write_output(_lines(_scored(model, options, stack), model, options, totals), options.output)
    if not totals.texts:
        raise DataError("There are no texts to score. Pass a file with text.")
    aside = options.output is not None or options.format != "text"
    (sys.stderr if aside else sys.stdout).write(totals.line() + "\n")
    return 0


def _score_sounds(model: SoundLmTask, options: ScoreCommand) -> int:
    """Write the log-probability of each recording and the totals."""
    from catena.data.reading import ReadCounter
    from catena.tasks.lm.sound.predict import total_line
    from catena.tasks.writing import PredictionWriter

    if options.tokens:
        raise UsageError("--tokens cannot be used with a model of recordings. Use --format jsonl for bits by second.")
    writer, counter, scored = PredictionWriter(options.format), ReadCounter(), []

    def lines(path: Path) -> Iterator[str]:
        for one in model.predict_stream(model.read(model.config, path, counter)):
            scored.append(one)
            yield from writer.lines(one)

    with input_file(options.file) as path:
        write_output(lines(path), options.output)
    for dropped in counter.dropped:
        warn("score", f"{dropped.location.file}: {dropped.reason}: {dropped.text}")
    aside = options.output is not None or options.format != "text"
    (sys.stderr if aside else sys.stdout).write(total_line(scored) + "\n")
    return 0 if scored else 1


def _scored(model: LmTask, options: ScoreCommand, stack: ExitStack) -> Iterable[ScoredText]:
    from catena.data.reading import ReadCounter

    if options.file == "-" and stdin_is_terminal():
        return (model.predict([text])[0] for text in typed_lines(model.config.data.encoding or "utf-8"))
    path = stack.enter_context(input_file(options.file))
    return model.predict_stream(model.read(model.config, path, ReadCounter()))


class Totals:
    """Sums over all texts so far."""

    def __init__(self) -> None:
        self.texts = self.tokens = self.characters = self.bytes = self.unknown = 0
        self.nats = 0.0

    def add(self, one: ScoredText) -> None:
        self.texts += 1
        self.tokens += len(one.log_probs)
        self.characters += len(one.text) + 1
        self.bytes += len(one.text.encode("utf-8", "surrogatepass")) + 1
        self.unknown += one.unknown
        self.nats -= one.log_prob

    def line(self) -> str:
        mean = self.nats / self.tokens
        perplexity = math.exp(mean) if mean < 700 else math.inf
        bits = self.nats / math.log(2)
        texts = "1 text" if self.texts == 1 else f"{self.texts:,} texts"
        return (
            f"{texts}, {self.tokens:,} tokens including end tokens, {self.unknown:,} unknown: log-probability "
            f"{-self.nats:.4f}, perplexity {perplexity:.4f}, {bits / self.characters:.4f} bits per character, "
            f"{bits / self.bytes:.4f} bits per byte"
        )


def _lines(scored: Iterable[ScoredText], model: LmTask, options: ScoreCommand, totals: Totals) -> Iterator[str]:
    from catena.tasks.writing import PredictionWriter

    writer = PredictionWriter(options.format)
    for one in scored:
        totals.add(one)
        if options.format == "text":
            yield f"{one.log_prob:10.4f}   perplexity {one.perplexity:10.2f}   {one.text}"
        else:
            yield from writer.lines(one)
        if options.tokens and options.format != "jsonl":
            for token, log_prob, is_known in zip(one.tokens, one.log_probs, one.known, strict=True):
                unknown = "" if is_known else "\t<unk>"
                yield f"{log_prob:10.4f}\t{json.dumps(token, ensure_ascii=False)[1:-1]}{unknown}"
