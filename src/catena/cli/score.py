"""``catena score RUN [FILE]``, the log-probability of each text under a language model, and totals."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from catena.cli.flags import DeviceFlags, arg, parse_flags
from catena.cli.predict import standard_input, stdin_is_terminal
from catena.cli.reading import ReadingFlags
from catena.cli.usage import UsageError
from catena.cli.weights import WeightFlags
from catena.cli.writing import check_writable, write_lines

if TYPE_CHECKING:
    from catena.tasks.lm.predictor import ScoredText


@dataclass(frozen=True)
class ScoreFlags(ReadingFlags, WeightFlags, DeviceFlags):
    """Options of ``catena score``."""

    run: Annotated[tyro.conf.Positional[Path], arg("RUN")]
    """Run or checkpoint folder of a language model."""
    file: Annotated[tyro.conf.Positional[str], arg("[FILE]")] = "-"
    """File with one text per line. - or nothing: standard input."""
    tokens: bool = False
    """Also show each token with its log-probability. Unknown tokens are marked <unk>."""
    format: Annotated[Literal["text", "tsv", "jsonl"], arg(shown="(default: text)")] = "text"
    """text: readable lines; tsv: log-probability, perplexity, text; jsonl: all details. With tsv and jsonl, totals are
    printed to standard error."""
    output: Annotated[Path | None, arg("FILE", "-o")] = None
    """Output file. Default: standard output."""


def run(argv: Sequence[str]) -> int:
    """Write the log-probability of each text and the totals."""
    about = "Log-probability, perplexity and bits of each text and of all texts. Texts are scored independently."
    flags = parse_flags(ScoreFlags, argv, "catena score RUN [FILE]", about)
    if flags.output is not None:
        check_writable(flags.output, "scores.tsv", flags.file)

    from catena.cli.machine import open_model
    from catena.tasks.lm.predictor import LmPredictor

    model = open_model(flags.run, flags)
    if not isinstance(model, LmPredictor):
        raise UsageError(f"{flags.run} is not a language model. Train one with 'catena train lm'.")
    own = flags.file == "-"
    texts = standard_input(flags.encoding or "utf-8") if own else model.read_inputs(Path(flags.file), flags.reading())
    scored = (
        (model.predict([text])[0] for text in texts) if own and stdin_is_terminal() else model.predict_stream(texts)
    )
    totals = Totals()
    lines = _lines(scored, model, flags, totals)
    if flags.output is not None:
        write_lines(flags.output, lines)
    else:
        for line in lines:
            sys.stdout.write(line + "\n")
    aside = flags.output is not None or flags.format != "text"
    (sys.stderr if aside else sys.stdout).write(totals.line() + "\n")
    return 0


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
        if not self.texts:
            return "no texts"
        mean = self.nats / self.tokens
        perplexity = math.exp(mean) if mean < 700 else math.inf
        bits = self.nats / math.log(2)
        texts = "1 text" if self.texts == 1 else f"{self.texts:,} texts"
        return (
            f"{texts}, {self.tokens:,} tokens including end tokens, {self.unknown:,} unknown: log-probability "
            f"{-self.nats:.4f}, perplexity {perplexity:.4f}, {bits / self.characters:.4f} bits per character, "
            f"{bits / self.bytes:.4f} bits per byte"
        )


def _lines(scored: Iterator[ScoredText], model: Any, flags: ScoreFlags, totals: Totals) -> Iterator[str]:
    for one in scored:
        totals.add(one)
        if flags.format == "text":
            yield f"{one.log_prob:10.4f}   perplexity {one.perplexity:10.2f}   {one.text}"
        else:
            yield model.write(one, one.text, flags.format)
        if flags.tokens and flags.format != "jsonl":
            known = [token in model.encoding.vocabulary for token in one.tokens[:-1]] + [
                True
            ]  # the end is a special token
            for token, log_prob, is_known in zip(one.tokens, one.log_probs, known, strict=True):
                unknown = "" if is_known else "\t<unk>"
                yield f"{log_prob:10.4f}\t{json.dumps(token, ensure_ascii=False)[1:-1]}{unknown}"
