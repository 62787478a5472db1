"""``catena generate RUN [PROMPTS…]``, which generates text with any search and under constraints."""

from __future__ import annotations

import json
import sys
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from catena.cli.flags import DeviceFlags, arg, check_minimum, parse_flags, take_keys
from catena.cli.usage import UsageError
from catena.cli.weights import WeightFlags
from catena.config import Config, override, parse
from catena.search.config import BaseSearchConfig, SampleConfig, SearchConfig

if TYPE_CHECKING:
    from catena.search.cost import ConstraintCost
    from catena.tasks.lm.generate import Continuation
    from catena.tasks.lm.predictor import LmPredictor
    from catena.tasks.lm.verse import VerseForm

_USAGE = "catena generate RUN [PROMPTS…]"
_ABOUT = "Generate text with a language model, from each prompt or, without a prompt, from scratch."


class GenerateConfig(Config):
    """How text is generated."""

    search: SearchConfig = SampleConfig()
    """The search algorithm that chooses the tokens."""


@dataclass(frozen=True)
class GenerateFlags(WeightFlags, DeviceFlags):
    """Options of ``catena generate``."""

    run: Annotated[tyro.conf.Positional[Path], arg("RUN")]
    """Run or checkpoint folder of a language model."""
    prompts: Annotated[tyro.conf.Positional[tuple[str, ...]], arg("[PROMPTS…]")] = ()
    """Prompts to continue."""
    file: Annotated[Path | None, arg("FILE")] = None
    """File with one prompt per line."""
    word: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], arg("TEXT")] = ()
    """Word or phrase that every text must contain. Repeat the option for more."""
    without: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], arg("TEXT")] = ()
    """Word or phrase that no text may contain. Repeat the option for more."""
    pattern: Annotated[str | None, arg("REGEX")] = None
    """Regular expression that must match each whole text without its prompt."""
    verse: Annotated[str | None, arg("FORM")] = None
    """Verse form of each text: quatrain-5, quatrain-7, regulated-5, regulated-7, or your own, such as
    '?????，?????a。/?????，?????a。': one symbol per syllable, a letter for the rhyme of a line, punctuation, / for a
    line break."""
    rhymes: Annotated[Path | None, arg("FILE")] = None
    """Rhyme groups for --verse: each line lists the symbols of one group, separated by spaces."""
    rhymes_from: Annotated[Path | None, arg("FILE")] = None
    """Verse from which to learn the rhymes: symbols that end every second line together."""
    lexicon: Annotated[Path | None, arg("FILE")] = None
    """Lexicon for --verse. Each line: a word, a tab, its meters (symbols such as 01) and optionally a tab and its
    rhyme. Without it, every character is a syllable, as in Chinese."""
    cost: Annotated[int | None, arg("N")] = None
    """Print to standard error how much probability the constraints cost, estimated from N sampled texts."""
    unknown: bool = False
    """Allow <unk> in the output. Default: only known words are generated."""
    fuse: Annotated[Path | None, arg("RUN")] = None
    """A second language model with the same vocabulary, for shallow fusion."""
    fuse_weight: Annotated[float, arg("W", shown="(default: 0.3)")] = 0.3
    """Weight of the second model's log-probabilities."""
    format: Annotated[Literal["text", "tsv", "jsonl"], arg(shown="(default: text)")] = "text"
    """text: the text; tsv: log-probability and text; jsonl: prompt, text, score, tokens."""


def run(argv: Sequence[str]) -> int:
    """Print generated texts, one or more for each prompt."""
    keys, rest = take_keys(GenerateConfig, GenerateFlags, argv)
    flags = parse_flags(GenerateFlags, rest, _USAGE, _ABOUT, GenerateConfig, override({}, keys))
    config = parse(GenerateConfig, override({}, keys), source="the command line")
    if flags.fuse_weight < 0:
        raise UsageError(f"--fuse-weight must be 0 or more, got {flags.fuse_weight}. Use 0.3, for example.")
    _check_constraints(flags)

    from catena.cli.machine import open_model
    from catena.randomness import Randomness
    from catena.tasks.lm.generate import FusionModel, TextConstraints, TextGenerator

    model = _language_model(open_model(flags.run, flags), flags.run)
    fused = None
    if flags.fuse is not None:
        fused = FusionModel(_language_model(open_model(flags.fuse, flags), flags.fuse), flags.fuse_weight)
    prompts = _prompts(flags, model)
    constraints = TextConstraints(flags.word, flags.without, flags.pattern, _form(flags, model))
    writer = TextGenerator(model, config.search, constraints, fused, unknown=flags.unknown)
    randomness = Randomness(flags.seed)
    if flags.cost is not None:
        for line in _cost_lines(writer.cost(prompts, flags.cost, randomness.torch("cost"))):
            sys.stderr.write(line + "\n")
    generator = randomness.torch("generate")
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


def _check_constraints(flags: GenerateFlags) -> None:
    check_minimum("--cost", flags.cost, 2)
    if flags.verse is None:
        for name in ("rhymes", "rhymes_from", "lexicon"):
            if getattr(flags, name) is not None:
                raise UsageError(
                    f"--{name.replace('_', '-')} requires a verse form. Add --verse, such as --verse quatrain-5."
                )
    if flags.rhymes is not None and flags.rhymes_from is not None:
        raise UsageError("--rhymes and --rhymes-from cannot be combined. Remove one of them.")


def _form(flags: GenerateFlags, model: LmPredictor) -> VerseForm | None:
    if flags.verse is None:
        return None
    from catena.tasks.lm.rhymes import learn_rhymes, read_rhymes
    from catena.tasks.lm.verse import VerseForm, read_lexicon

    meters, rhymes = read_lexicon(flags.lexicon) if flags.lexicon is not None else (None, {})
    found: dict[str, Hashable] = dict(rhymes)
    if flags.rhymes is not None:
        found = dict(read_rhymes(flags.rhymes))
    elif flags.rhymes_from is not None:
        found = dict(learn_rhymes(model.read_inputs(flags.rhymes_from)))
    return VerseForm(flags.verse, found, meters)


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


def _language_model(model: object, folder: Path) -> LmPredictor:
    from catena.tasks.lm.predictor import LmPredictor

    if not isinstance(model, LmPredictor):
        raise UsageError(f"{folder} is not a language model. Train one with 'catena train lm'.")
    return model


def _prompts(flags: GenerateFlags, model: LmPredictor) -> list[str]:
    if flags.file is None:
        return list(flags.prompts) or [""]
    return [*flags.prompts, *model.read_inputs(flags.file)]


def _line(one: Continuation, format: str) -> str:
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
