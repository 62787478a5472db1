"""``catena correct RUN [FILE]``, which corrects each line with a language model and a model of errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from catena.cli.common import (
    MachineOptions,
    RunCommand,
    check_language_model,
    check_writable,
    typed_lines,
    warn,
    write_output,
)
from catena.cli.parser import Arg, UsageError
from catena.niche.correction.config import EditRates, SpellingConfig

if TYPE_CHECKING:
    from catena.niche.correction.chains import McmcCorrector
    from catena.niche.correction.result import CorrectionResult
    from catena.niche.correction.text import TextCorrector
    from catena.tasks.lm.task import LmTask

_N_ALTERNATIVES = 5
_OF_METHOD = {
    "index": ("words", "errors", "real_words", "new_words", "max_edits", "beam_size"),
    "mcmc": ("steps", "chains"),
}
"""Options that apply to only one method."""


class CorrectCommand(MachineOptions):
    """Correct texts: find the most probable intended text behind each observed one."""

    usage = "catena correct RUN [FILE] [--options]"
    example = "catena correct runs/lm letters.txt --words names.txt -o corrected.txt"

    run: Annotated[Path, Arg("RUN", positional=True)]
    """Run or checkpoint folder of a language model. Models of words work best."""
    file: Annotated[str, Arg("[FILE]", positional=True)] = "-"
    """File with one text per line. - or nothing: standard input."""
    method: Literal["index", "mcmc"] | None = None
    """index: replace misspelled words by similar known words; mcmc: sample the intended text symbol by symbol, for
    models of characters, bytes or subwords. Default: index for models of words or with --words."""
    words: Annotated[Path | None, Arg("FILE")] = None
    """Text whose words are known in addition to the model's vocabulary (index)."""
    errors: Annotated[Path | None, Arg("FILE")] = None
    """Misspellings from which the probabilities of errors are estimated. Each line: misspelled word, tab, correct word
    (index)."""
    real_words: float | None = None
    """Factor on the probability that a known word is an error. 0: never change a known word. Default: 0.3 (index)."""
    new_words: float | None = None
    """Factor on the probability that an unknown word is correct. 0: always replace it if a known word is similar.
    Default: 0.3 (index)."""
    max_edits: int | None = None
    """Largest number of edits in an unknown word, 1 or 2. Default: 2 (index)."""
    beam_size: int | None = None
    """Number of corrections of a text that are compared at each word. Default: 32 (index)."""
    lm_weight: float | None = None
    """Exponent of the language model's probability. Larger values give it more weight than the errors. Default: 0.8,
    mcmc: 1."""
    confusions: Annotated[Path | None, Arg("FILE")] = None
    """Confusion file. Each line: a symbol, a tab, and the symbols typed instead of it by mistake, separated by
    spaces."""
    substitute: float = EditRates.substitute
    """Probability that a symbol was replaced by another."""
    insert: float = EditRates.insert
    """Probability that an extra symbol was inserted."""
    delete: float = EditRates.delete
    """Probability that a symbol was omitted."""
    transpose: float = EditRates.transpose
    """Probability that two adjacent symbols were swapped."""
    steps: int | None = Field(None, ge=1)
    """Steps of each Markov chain after the burn-in, which has half as many. Default: 1000 (mcmc)."""
    chains: int | None = Field(None, ge=1)
    """Number of Markov chains for each text. Default: 8 (mcmc)."""
    format: Literal["text", "tsv", "jsonl"] = "text"
    """text: the corrected text; tsv: probability, corrected, original; jsonl: also changes and alternatives."""
    output: Annotated[Path | None, Arg("FILE", "-o")] = None
    """Output file. Default: standard output."""


def run(argv: Sequence[str]) -> int:
    """Write the most probable correction of each line."""
    command = RunCommand(CorrectCommand, argv, predicts=False)
    options = command.options
    if options.output is not None:
        check_writable(options.output, "corrected.txt", options.file)

    model = check_language_model(command.open(), options.run)
    correct = _corrector(options, model)
    write_output(_lines(correct, _texts(model, options.file), options.format), options.output)
    return 0


def _texts(model: LmTask, file: str) -> Iterable[str]:
    from catena.data.reading import ReadCounter

    if file == "-":
        return typed_lines(model.config.data.encoding or "utf-8")
    return (text.text for text in model.read_inputs(Path(file), ReadCounter()))


def _corrector(options: CorrectCommand, model: LmTask) -> Callable[[str, int], CorrectionResult]:
    """The function from a text and its number to its correction."""
    from catena.niche.correction.text import WORD_TOKENIZERS

    of_words = options.words is not None or model.encoding.tokenizer.settings.kind in WORD_TOKENIZERS
    method = options.method or ("index" if of_words else "mcmc")
    _check_method(options, method)
    if method == "mcmc":
        return _mcmc_corrector(options, model).correct
    corrector = _text_corrector(options, model)
    n_alternatives = _N_ALTERNATIVES if options.format == "jsonl" else 0
    return lambda text, number: corrector.correct(text, n_alternatives)


def _mcmc_corrector(options: CorrectCommand, model: LmTask) -> McmcCorrector:
    from catena.niche.correction.chains import McmcCorrector
    from catena.search.mcmc import AnnealingSchedule

    steps = options.steps or 1000
    return McmcCorrector(
        *_models(options, model),
        schedule=AnnealingSchedule(steps, burn_in=steps // 2, chains=options.chains or 8),
        lm_weight=1.0 if options.lm_weight is None else options.lm_weight,
        seed=options.seed,
    )


def _text_corrector(options: CorrectCommand, model: LmTask) -> TextCorrector:
    from catena.niche.correction.error_model import read_misspellings
    from catena.niche.correction.text import TextCorrector, read_words

    names = ("real_words", "new_words", "max_edits", "beam_size", "lm_weight")
    values = {name: value for name in names if (value := getattr(options, name)) is not None}
    return TextCorrector(
        *_models(options, model),
        SpellingConfig(**values),
        words=read_words(options.words) if options.words is not None else (),
        misspellings=read_misspellings(options.errors) if options.errors is not None else (),
    )


def _models(options: CorrectCommand, model: LmTask) -> tuple[Any, Any, Any, EditRates, dict[str, list[str]] | None]:
    """What both methods use: the language model with its tokens, the rates of edits, and confused symbols."""
    from catena.niche.correction.error_model import read_confusions

    rates = EditRates(options.insert, options.delete, options.substitute, options.transpose)
    confusions = None if options.confusions is None else read_confusions(options.confusions)
    return model.stepper, model.encoding.tokenizer, model.encoding.vocabulary, rates, confusions


def _check_method(options: CorrectCommand, method: str) -> None:
    """Raise UsageError for an option of the other method."""
    for other, names in _OF_METHOD.items():
        given = [name for name in names if getattr(options, name) is not None]
        if given and other != method:
            option = "--" + given[0].replace("_", "-")
            raise UsageError(f"{option} applies only to --method {other}, got --method {method}. Remove {option}.")


def _lines(correct: Callable[[str, int], CorrectionResult], texts: Iterable[str], format: str) -> Iterator[str]:
    for number, text in enumerate(texts):
        corrected = correct(text, number)
        if corrected.unknown:
            symbols = ", ".join(map(repr, corrected.unknown[:9]))
            warn(
                "correct",
                f"text {number + 1} is unchanged because the model does not know {symbols}. Use a character-level "
                f"model that was trained on more text.",
            )
        yield _line(corrected, format)


def _line(one: CorrectionResult, format: str) -> str:
    if format == "text":
        return one.corrected
    if format == "tsv":
        return f"{one.probability:.4f}\t{one.corrected}\t{one.text}"
    from catena.tasks.writing import to_json

    return to_json(one.to_dict())
