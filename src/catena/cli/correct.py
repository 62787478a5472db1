"""``catena correct RUN [FILE]``, which corrects each line with a language model and a noisy channel."""

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
    """Options of ``catena correct``."""

    run: Annotated[tyro.conf.Positional[Path], arg("RUN")]
    """Run or checkpoint folder of a language model. Character-level models work best."""
    file: Annotated[tyro.conf.Positional[str], arg("[FILE]")] = "-"
    """File with one text per line. - or nothing: standard input."""
    confusions: Annotated[Path | None, arg("FILE")] = None
    """Confusion file. Each line: a symbol, a tab, and the symbols typed instead of it by mistake, separated by
    spaces."""
    substitute: Annotated[float, arg("P", shown="(default: 0.05)")] = 0.05
    """Probability that a symbol was replaced by another."""
    insert: Annotated[float, arg("P", shown="(default: 0.001)")] = 0.001
    """Probability that an extra symbol was inserted."""
    delete: Annotated[float, arg("P", shown="(default: 0.001)")] = 0.001
    """Probability that a symbol was omitted."""
    transpose: Annotated[float, arg("P", shown="(default: 0.001)")] = 0.001
    """Probability that two adjacent symbols were swapped."""
    sharpness: Annotated[float, arg("X", shown="(default: 1)")] = 1.0
    """Exponent of the language model's probability. Above 1, the model counts more than the channel."""
    steps: Annotated[int, arg("N", shown="(default: 1000)")] = 1000
    """Steps of each Markov chain after the burn-in, which has half as many."""
    chains: Annotated[int, arg("N", shown="(default: 8)")] = 8
    """Number of Markov chains for each text."""
    format: Annotated[Literal["text", "tsv", "jsonl"], arg(shown="(default: text)")] = "text"
    """text: the corrected text; tsv: probability, corrected, original; jsonl: also alternatives and statistics."""
    output: Annotated[Path | None, arg("FILE", "-o")] = None
    """Output file. Default: standard output."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_minimum("--steps", self.steps, 1)
        check_minimum("--chains", self.chains, 1)


def run(argv: Sequence[str]) -> int:
    """Write the most probable correction of each line."""
    about = "Correct texts by sampling the intended text given the observed one."
    flags = parse_flags(CorrectFlags, argv, _USAGE, about)
    if flags.output is not None:
        check_writable(flags.output, "corrected.txt", flags.file)

    from catena.cli.machine import open_model
    from catena.search.mcmc import AnnealingSchedule
    from catena.tasks.lm.correct import Corrector, EditRates, read_confusions
    from catena.tasks.lm.predictor import LmPredictor

    model = open_model(flags.run, flags)
    if not isinstance(model, LmPredictor):
        raise UsageError(f"{flags.run} is not a language model. Train one with 'catena train lm'.")
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
                f"catena correct: text {number + 1} is unchanged because the model does not know {symbols}. Use a "
                f"character-level model that was trained on more text.\n"
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
