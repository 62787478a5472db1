"""``catena generate RUN [PROMPTS…]``, which generates text or sound with any search and under constraints."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from catena.cli.common import (
    WeightOptions,
    check_language_model,
    check_writable,
    open_language_model,
    open_task,
    parse_or_help,
    write_output,
)
from catena.cli.parser import Arg, CommandLine, Section, UsageError
from catena.config import Config, parse
from catena.files import escape_controls
from catena.search.config import BaseSearchConfig, SampleConfig, SearchConfig

if TYPE_CHECKING:
    from catena.niche.verse.form import VerseForm
    from catena.search.cost import ConstraintCost
    from catena.tasks.lm.generate import Continuation
    from catena.tasks.lm.sound.generate import GeneratedRecording
    from catena.tasks.lm.sound.task import SoundLmTask
    from catena.tasks.lm.task import LmTask


class GenerateConfig(Config):
    """How text is generated."""

    search: SearchConfig = SampleConfig()
    """The search algorithm that chooses the tokens."""


class GenerateCommand(WeightOptions):
    """Generate text, or sound, with a language model, from each prompt or, without a prompt, from scratch."""

    usage = "catena generate RUN [PROMPTS…] [--options]"
    example = 'catena generate runs/lm "once upon a time" --top-p 0.9 --n 3'

    run: Annotated[Path, Arg("RUN", positional=True)]
    """Run or checkpoint folder of a language model."""
    prompts: Annotated[tuple[str, ...], Arg("[PROMPTS…]", positional=True)] = ()
    """Prompts to continue; for a model of recordings, sound files."""
    prompt: Annotated[tuple[str, ...], Arg("TEXT", repeat=True)] = ()
    """Prompt to continue, as PROMPTS. Repeat the option for more."""
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
    output: Annotated[Path | None, Arg("FILE", "-o")] = None
    """Output file. Default: standard output. For a model of recordings, a WAV file; several get numbers."""
    seconds: float | None = Field(None, gt=0, le=3600)
    """Length of a recording, at most 3600. Default: the length of --condition, or 2."""
    speaker: Annotated[str | None, Arg("NAME")] = None
    """Speaker of a recording, for a model with speakers. Default: an unknown one."""
    condition: Annotated[Path | None, Arg("FILE")] = None
    """Local condition of a recording: a sound file whose log-mel spectrogram is used, or a .npy file with a series."""
    ensemble: Annotated[tuple[Path, ...], Arg("RUN")] = ()
    """More models of recordings, whose probabilities are averaged."""


def run(argv: Sequence[str]) -> int:
    """Print generated texts, one or more for each prompt."""
    options, (values,) = parse_or_help(
        CommandLine(GenerateCommand, argv), [Section(GenerateConfig, title="Search")], _GROUPS
    )
    config = parse(GenerateConfig, values, source="the command line")
    _check_constraints(options)
    if options.output is not None:
        check_writable(options.output, "out.wav")

    from catena.tasks.lm.task import LmTask

    model: Any = open_task(options.run, options)
    if isinstance(model, LmTask):
        return _generate_texts(options, config.search, model)
    has_length = "max_length" in values.get("search", {})
    return _generate_sounds(options, config.search, _check_sound_model(model, options.run), has_length=has_length)


def _generate_texts(options: GenerateCommand, search: BaseSearchConfig, model: LmTask) -> int:
    from catena.randomness import Randomness
    from catena.search.text_constraints import TextConstraints
    from catena.tasks.lm.generate import FusionModel, TextGenerator

    _reject(options, _FOR_SOUNDS, "texts")
    fused = None
    if options.fuse is not None:
        fused = FusionModel(open_language_model(options.fuse, options), options.fuse_weight)
    prompts = _prompts(options, lambda file: _texts(model, file)) or ([""] if options.file is None else [])
    constraints = TextConstraints(options.include, options.exclude, options.regex)
    form = _form(options, model)
    writer = TextGenerator(model, search, constraints, fused, form=form, unknown=options.unknown)
    randomness = Randomness(options.seed)
    if options.cost is not None:
        for line in _cost_lines(writer.cost(prompts, options.cost, randomness.torch("cost"))):
            sys.stderr.write(line + "\n")
    generator = randomness.torch("generate")
    if options.format == "text" and len(prompts) == 1 and _writes_one(search) and options.output is None:
        sys.stdout.write(prompts[0])
        for piece in writer.stream(prompts[0], generator):
            sys.stdout.write(escape_controls(piece))
            sys.stdout.flush()
        sys.stdout.write("\n")
        return 0
    write_output(
        (_line(one, options.format) for row in writer.write(prompts, generator) for one in row), options.output
    )
    return 0


_FOR_SOUNDS = ("seconds", "speaker", "condition", "ensemble")
_FOR_TEXTS = ("include", "exclude", "regex", "verse", "cost", "unknown")
_GROUPS = {
    "Input": ("run", "prompts", "prompt", "file"),
    "Search": ("search", "n", "temperature", "top_k", "top_p", "beam_size", "n_best", "max_length", "min_length"),
    "Text": ("include", "exclude", "regex", "unknown", "fuse", "fuse_weight", "cost"),
    "Verse": ("verse", "rhymes", "rhymes_from", "lexicon"),
    "Sound": ("seconds", "speaker", "condition", "ensemble"),
    "Run": ("output", "format", "device", "threads", "seed", "quantization"),
}


# --- sounds -----------------------------------------------------------------------------------------------------------


def _generate_sounds(
    options: GenerateCommand, search: BaseSearchConfig, model: SoundLmTask, *, has_length: bool
) -> int:
    """Write recordings, and print a line about each."""
    from catena.tasks.lm.sound.generate import SoundFusion, SoundGenerator, count_samples

    _reject(options, _FOR_TEXTS, "recordings")
    if options.output is None:
        raise UsageError("-o is missing: a model of recordings writes a sound. Add -o out.wav.")
    if has_length and options.seconds is not None:
        raise UsageError("--seconds and --max-length both set the length. Remove one of them.")
    if not has_length:
        length = count_samples(model, options.condition, options.seconds)
        search = search.model_copy(update={"max_length": length})
    model = model.ensemble([_sound_model(folder, options) for folder in options.ensemble])
    fused = None
    if options.fuse is not None:
        fused = SoundFusion(_sound_model(options.fuse, options), options.fuse_weight)
    generator = SoundGenerator(model, search, fused, speaker=options.speaker, condition=options.condition)
    names = _prompts(options, lambda file: file.read_text(encoding="utf-8").split("\n"))
    prompts: list[Path | None] = [Path(name) for name in names if name]
    found = [one for row in generator.write(prompts or [None], options.seed) for one in row]
    for i, one in enumerate(found, start=1):
        path = options.output
        if len(found) > 1:
            path = path.with_name(f"{path.stem}-{i}{path.suffix}")
        one.save(path)
        sys.stdout.write(_sound_line(path, one, options.format) + "\n")
    return 0


def _sound_line(path: Path, one: GeneratedRecording, format: str) -> str:
    if format == "tsv":
        return f"{one.log_prob:.4f}\t{path}"
    if format == "text":
        return f"{path}: {one.seconds:.2f} s at {one.sample_rate} Hz, {one.bits_per_sample:.4f} bits per sample"
    from catena.tasks.writing import to_json

    names = ("log_prob", "bits_per_sample", "seconds", "sample_rate")
    return to_json({"file": str(path), **{name: getattr(one, name) for name in names}})


def _sound_model(folder: Path, options: GenerateCommand) -> SoundLmTask:
    return _check_sound_model(open_task(folder, options), folder)


def _check_sound_model(model: Any, folder: Path) -> SoundLmTask:
    from catena.tasks.lm.sound.task import SoundLmTask
    from catena.tasks.lm.task import LmTask

    if isinstance(model, LmTask):
        raise UsageError(f"{folder} is not a model of recordings. Train one with 'catena train lm FOLDER'.")
    if not isinstance(model, SoundLmTask):
        check_language_model(model, folder)
    return model


def _reject(options: GenerateCommand, names: Sequence[str], what: str) -> None:
    """Raise UsageError for options that a model of ``what`` does not have."""
    for name in names:
        if getattr(options, name):
            raise UsageError(f"--{name.replace('_', '-')} cannot be used with a model of {what}. Remove it.")


# --- texts ------------------------------------------------------------------------------------------------------------


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


def _prompts(options: GenerateCommand, read: Callable[[Path], list[str]]) -> list[str]:
    """The prompts of the command line, and then those that ``read`` finds in the file."""
    return [*options.prompts, *options.prompt, *(read(options.file) if options.file is not None else [])]


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
