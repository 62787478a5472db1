"""``catena correct RUN [FILE]``: what was probably meant, line by line, by a language model and a channel of errors."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from catena.cli.flags import DeviceFlags, arg, check_minimum, parse_flags
from catena.cli.predict import standard_input
from catena.cli.reading import ReadingFlags
from catena.cli.usage import UsageError
from catena.cli.writing import check_writable, write_lines

if TYPE_CHECKING:
    from catena.tasks.lm.correct import CorrectionResult, Corrector

_USAGE = "catena correct RUN [FILE]"


@dataclass(frozen=True)
class CorrectFlags(ReadingFlags, DeviceFlags):
    """What was written, and how often a writer errs in which way."""

    run: Annotated[tyro.conf.Positional[Path], arg("RUN")]
    """The run or checkpoint folder of a language model, best one of characters."""
    file: Annotated[tyro.conf.Positional[str], arg("[FILE]")] = "-"
    """A file of texts, one a line; standard input if it is - or not named."""
    confusions: Annotated[Path | None, arg("FILE")] = None
    """Lines of a symbol, a tab, and the symbols that are written for it by mistake, with spaces between."""
    substitute: Annotated[float, arg("P", shown="(default: 0.05)")] = 0.05
    """How probable it is that a symbol was written in place of another."""
    insert: Annotated[float, arg("P", shown="(default: 0.001)")] = 0.001
    """How probable it is that a symbol was written too much."""
    delete: Annotated[float, arg("P", shown="(default: 0.001)")] = 0.001
    """How probable it is that a symbol was left out."""
    transpose: Annotated[float, arg("P", shown="(default: 0.001)")] = 0.001
    """How probable it is that two symbols changed places."""
    sharpness: Annotated[float, arg("X", shown="(default: 1)")] = 1.0
    """A power of the language model's probability: above 1 it is trusted more."""
    steps: Annotated[int, arg("N", shown="(default: 1000)")] = 1000
    """Steps of each Markov chain after those that are forgotten, which are half as many."""
    chains: Annotated[int, arg("N", shown="(default: 8)")] = 8
    """Markov chains for each text."""
    format: Annotated[Literal["text", "tsv", "jsonl"], arg(shown="(default: text)")] = "text"
    """text: the corrected texts; tsv: probability, corrected, original; jsonl: alternatives and figures too."""
    output: Annotated[Path | None, arg("FILE", "-o")] = None
    """The file to write; standard output if not set."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_minimum("--steps", self.steps, 1)
        check_minimum("--chains", self.chains, 1)


def run(argv: Sequence[str]) -> int:
    """Write each line as it was probably meant."""
    about = "Correct texts by sampling what was meant, given what was written."
    flags = parse_flags(CorrectFlags, argv, _USAGE, about)
    if flags.output is not None:
        check_writable(flags.output, "corrected.txt", flags.file)

    from catena.cli.machine import open_model
    from catena.search.mcmc import AnnealingSchedule
    from catena.tasks.lm.correct import Corrector, EditRates, read_confusions
    from catena.tasks.lm.predictor import LmPredictor

    model = open_model(flags.run, flags)
    if not isinstance(model, LmPredictor):
        raise UsageError(f"{flags.run} is no language model: train one with 'catena train lm'")
    corrector = Corrector(
        model,
        EditRates(flags.insert, flags.delete, flags.substitute, flags.transpose),
        read_confusions(flags.confusions) if flags.confusions is not None else None,
        schedule=AnnealingSchedule(flags.steps, burn_in=flags.steps // 2, chains=flags.chains),
        sharpness=flags.sharpness,
        seed=flags.seed,
    )
    own = flags.file == "-"
    texts = standard_input(flags.encoding or "utf-8") if own else model.read_inputs(Path(flags.file), flags.reading())
    lines = _lines(corrector, texts, flags.format)
    if flags.output is not None:
        write_lines(flags.output, lines)
        return 0
    for line in lines:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    return 0


def _lines(corrector: Corrector, texts: Iterator[str], format: str) -> Iterator[str]:
    for number, text in enumerate(texts):
        corrected = corrector.correct(text, number)
        if corrected.unknown:
            symbols = ", ".join(map(repr, corrected.unknown[:9]))
            sys.stderr.write(
                f"catena correct: text {number + 1} is left as it is, for the model does not know {symbols}: a model "
                f"of characters, trained on more text, may\n"
            )
        yield _line(corrected, format)


def _line(one: CorrectionResult, format: str) -> str:
    if format == "text":
        return one.corrected
    if format == "tsv":
        return f"{one.probability:.4f}\t{one.corrected}\t{one.text}"
    found = {
        "text": one.text,
        "corrected": one.corrected,
        "probability": round(one.probability, 6),
        "alternatives": [{"text": text, "probability": round(share, 6)} for text, share in one.alternatives],
        "accepted": round(one.accepted, 6),
        "effective_samples": round(one.effective, 1),
        "unknown": list(one.unknown),
    }
    return json.dumps(found, ensure_ascii=False)
