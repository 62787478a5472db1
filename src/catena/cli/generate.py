"""``catena generate RUN [PROMPTS…]``, which generates text with any search and under constraints."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from catena.cli.common import HELP, WeightOptions, end_with, open_task
from catena.cli.help import full_help, short_help
from catena.cli.parser import Arg, Section, UsageError, parse_command
from catena.config import Config, parse
from catena.search.config import BaseSearchConfig, SampleConfig, SearchConfig

if TYPE_CHECKING:
    from catena.niche.verse.form import VerseForm
    from catena.search.cost import ConstraintCost
    from catena.tasks.lm.generate import Continuation
    from catena.tasks.lm.task import LmTask


class GenerateConfig(Config):
    """How text is generated."""

    search: SearchConfig = SampleConfig()
    """The search algorithm that chooses the tokens."""


class GenerateCommand(WeightOptions):
    """Generate text with a language model, from each prompt or, without a prompt, from scratch."""

    usage = "catena generate RUN [PROMPTS…] [--options]"
    example = 'catena generate runs/lm "once upon a time" --top-p 0.9 --n 3'

    run: Annotated[Path, Arg("RUN", positional=True)]
    """Run or checkpoint folder of a language model."""
    prompts: Annotated[tuple[str, ...], Arg("[PROMPTS…]", positional=True)] = ()
    """Prompts to continue."""
    file: Annotated[Path | None, Arg("FILE")] = None
    """File with one prompt per line."""
    include: Annotated[tuple[str, ...], Arg("TEXT", repeat=True)] = ()
    """Word or phrase that every text must contain. Repeat the option for more."""
    exclude: Annotated[tuple[str, ...], Arg("TEXT", repeat=True)] = ()
    """Word or phrase that no text may contain. Repeat the option for more."""
    regex: Annotated[str | None, Arg("REGEX")] = None
    """Regular expression that must match each whole text without its prompt."""
    verse: Annotated[str | None, Arg("FORM")] = None
    """Verse form of each text: quatrain-5, quatrain-7, regulated-5, regulated-7, or your own, such as
    '?????，?????a。/?????，?????a。': one symbol per syllable, a letter for the rhyme of a line, punctuation, / for a
    line break."""
    rhymes: Annotated[Path | None, Arg("FILE")] = None
    """Rhyme groups for --verse: each line lists the symbols of one group, separated by spaces."""
    rhymes_from: Annotated[Path | None, Arg("FILE")] = None
    """Verse from which to learn the rhymes: symbols that end every second line together."""
    lexicon: Annotated[Path | None, Arg("FILE")] = None
    """Lexicon for --verse. Each line: a word, a tab, its meters (symbols such as 01) and optionally a tab and its
    rhyme. Without it, every character is a syllable, as in Chinese."""
    cost: int | None = Field(None, ge=2)
    """Print to standard error how much probability the constraints cost, estimated from N sampled texts."""
    unknown: bool = False
    """Allow <unk> in the output. Default: only known words are generated."""
    fuse: Annotated[Path | None, Arg("RUN")] = None
    """A second language model with the same vocabulary, for shallow fusion."""
    fuse_weight: float = Field(0.3, ge=0)
    """Weight of the second model's log-probabilities."""
    format: Literal["text", "tsv", "jsonl"] = "text"
    """text: the text; tsv: log-probability and text; jsonl: prompt, text, score, tokens."""


def run(argv: Sequence[str]) -> int:
    """Print generated texts, one or more for each prompt."""
    sections = [Section(GenerateConfig, title="Search")]
    if any(word in HELP for word in argv):
        full = "--help-all" in argv
        end_with(full_help(GenerateCommand, sections) if full else short_help(GenerateCommand, sections, _GROUPS))
    options, (values,) = parse_command(GenerateCommand, argv, sections)
    config = parse(GenerateConfig, values, source="the command line")
    _check_constraints(options)

    from catena.randomness import Randomness
    from catena.search.text_constraints import TextConstraints
    from catena.tasks.lm.generate import FusionModel, TextGenerator

    model = language_model(options.run, options)
    fused = None
    if options.fuse is not None:
        fused = FusionModel(language_model(options.fuse, options), options.fuse_weight)
    prompts = _prompts(options, model)
    constraints = TextConstraints(options.include, options.exclude, options.regex)
    form = _form(options, model)
    writer = TextGenerator(model, config.search, constraints, fused, form=form, unknown=options.unknown)
    randomness = Randomness(options.seed)
    if options.cost is not None:
        for line in _cost_lines(writer.cost(prompts, options.cost, randomness.torch("cost"))):
            sys.stderr.write(line + "\n")
    generator = randomness.torch("generate")
    if options.format == "text" and len(prompts) == 1 and _writes_one(config.search):
        sys.stdout.write(prompts[0])
        for piece in writer.stream(prompts[0], generator):
            sys.stdout.write(piece)
            sys.stdout.flush()
        sys.stdout.write("\n")
        return 0
    for row in writer.write(prompts, generator):
        for one in row:
            sys.stdout.write(_line(one, options.format) + "\n")
    return 0


_GROUPS = {
    "Input": ("run", "prompts", "file"),
    "Search": ("search", "n", "temperature", "top_k", "top_p", "beam_size", "n_best", "max_length", "min_length"),
    "Text": ("include", "exclude", "regex", "unknown", "fuse", "fuse_weight", "cost"),
    "Verse": ("verse", "rhymes", "rhymes_from", "lexicon"),
    "Run": ("format", "device", "threads", "seed", "quantization"),
}


def _check_constraints(options: GenerateCommand) -> None:
    if options.verse is None:
        for name in ("rhymes", "rhymes_from", "lexicon"):
            if getattr(options, name) is not None:
                raise UsageError(
                    f"--{name.replace('_', '-')} requires a verse form. Add --verse, such as --verse quatrain-5."
                )
    if options.rhymes is not None and options.rhymes_from is not None:
        raise UsageError("--rhymes and --rhymes-from cannot be combined. Remove one of them.")


def _form(options: GenerateCommand, model: LmTask) -> VerseForm | None:
    if options.verse is None:
        return None
    from catena.niche.verse.form import VerseForm, read_lexicon
    from catena.niche.verse.rhymes import learn_rhymes, read_rhymes

    meters, rhymes = read_lexicon(options.lexicon) if options.lexicon is not None else (None, {})
    found: dict[str, Hashable] = dict(rhymes)
    if options.rhymes is not None:
        found = dict(read_rhymes(options.rhymes))
    elif options.rhymes_from is not None:
        found = dict(learn_rhymes(_texts(model, options.rhymes_from)))
    return VerseForm(options.verse, found, meters)


def _cost_lines(cost: ConstraintCost) -> list[str]:
    return [
        f"cost of the constraints, from {cost.n:,} texts of {cost.ids:.1f} tokens: {cost.drawn:.2f} nats per text "
        f"(standard error {cost.error:.2f}), so perplexity is {cost.factor:.3f} times that of the search without "
        f"constraints: {cost.perplexity:.2f} in all",
        f"all texts that satisfy them together have log-probability {-cost.least:.2f} (effective sample size "
        f"{cost.effective:.0f})",
    ]


def _writes_one(search: BaseSearchConfig) -> bool:
    """Whether a search returns a single text for each prompt."""
    return getattr(search, "n", 1) == getattr(search, "n_best", 1) == 1


def language_model(folder: Path, options: Any) -> LmTask:
    """The language model of a run, or UsageError if it is a model of another task."""
    from catena.tasks.lm.task import LmTask

    model = open_task(folder, options)
    if not isinstance(model, LmTask):
        raise UsageError(f"{folder} is not a language model. Train one with 'catena train lm'.")
    return model


def _prompts(options: GenerateCommand, model: LmTask) -> list[str]:
    if options.file is None:
        return list(options.prompts) or [""]
    return [*options.prompts, *_texts(model, options.file)]


def _texts(model: LmTask, path: Path) -> list[str]:
    from catena.data.reading import ReadCounter

    return [text.text for text in model.read(model.config, path, ReadCounter())]


def _line(one: Continuation, format: str) -> str:
    whole = one.prompt + one.text
    if format == "text":
        return whole
    if format == "tsv":
        return f"{one.hypothesis.log_prob:.4f}\t{' '.join(whole.split())}"
    from catena.tasks.writing import to_json

    hypothesis = one.hypothesis
    return to_json(
        {
            "prompt": one.prompt,
            "text": one.text,
            "log_prob": hypothesis.log_prob,
            "score": hypothesis.score,
            "finished": hypothesis.finished,
            "tokens": list(one.tokens),
        }
    )
