"""``catena vectors …``, which queries, evaluates, plots and converts word vectors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from catena.cli.common import check_writable, end_with, parse_plain
from catena.cli.parser import HELP, Arg, CommandOptions, UsageError
from catena.registry import did_you_mean

if TYPE_CHECKING:
    from catena.tasks.embed.task import EmbedTask
    from catena.vectors.table import VectorTable

_FileFormat = Literal["catena", "word2vec", "word2vec-text", "glove"]
_Words = Annotated[tuple[str, ...], Arg("WORD …", positional=True)]
_PICTURES = (".svg", ".png", ".html", ".htm")


class VectorOptions(CommandOptions):
    """Options that select the vectors."""

    n_words: ClassVar[range] = range(1, sys.maxsize)
    """How many words the command takes."""

    vectors: Annotated[Path | None, Arg("PATH", "-v")] = None
    """A run of 'catena train embed', or a word2vec, GloVe or fastText file. Default: the newest run in runs/."""


class NeighborsCommand(VectorOptions):
    """Print the nearest words of each word, by cosine."""

    usage = "catena vectors neighbors [VECTORS] WORD … [--options]"
    example = "catena vectors neighbors king queen -k 5 --vectors runs/vectors"

    words: _Words = ()
    """Words to look up."""
    k: Annotated[int, Field(ge=1), Arg("N", "-k")] = 10
    """Number of neighbors."""


class AnalogyCommand(VectorOptions):
    """Print the words that are to C as B is to A. 'analogy man king woman' should give queen."""

    usage = "catena vectors analogy A B C [--options]"
    example = "catena vectors analogy man king woman -k 3 --vectors runs/vectors"
    n_words = range(3, 4)

    words: _Words = ()
    """The three words."""
    k: Annotated[int, Field(ge=1), Arg("N", "-k")] = 10
    """Number of answers."""
    multiply: bool = False
    """Score by the product (3CosMul) instead of the sum (3CosAdd)."""


class SimilarityCommand(VectorOptions):
    """Print the cosine of two words."""

    usage = "catena vectors similarity A B [--options]"
    example = "catena vectors similarity king queen --vectors runs/vectors"
    n_words = range(2, 3)

    words: _Words = ()
    """The two words."""


class OddOneOutCommand(VectorOptions):
    """Print the word that is farthest from the mean of all words."""

    usage = "catena vectors odd-one-out WORD … [--options]"
    example = "catena vectors odd-one-out monday friday tiger sunday --vectors runs/vectors"
    n_words = range(3, sys.maxsize)

    words: _Words = ()
    """Three words or more."""


class EvaluateVectorsCommand(VectorOptions):
    """Score vectors on analogies (accuracy by section) and on human similarity ratings (Spearman)."""

    usage = "catena vectors evaluate FILES… [--options]"
    example = "catena vectors evaluate questions-words.txt wordsim353.tsv --vectors runs/vectors"

    files: Annotated[tuple[Path, ...], Arg("FILES…", positional=True)]
    """Analogies (four words per line, as in questions-words) or similarities (two words and a number per line)."""
    multiply: bool = False
    """Solve analogies by 3CosMul instead of 3CosAdd."""
    most: int = Field(300_000, ge=4)
    """Solve analogies with the N most frequent words only."""


class MapCommand(VectorOptions):
    """Plot words in two dimensions by t-SNE, as an image or a web page."""

    usage = "catena vectors map [WORD …] -o FILE [--options]"
    example = "catena vectors map tiger cow monday -o words.svg --vectors runs/vectors"

    words: _Words = ()
    """Show these words and their neighbors. Default: the most frequent words."""
    output: Annotated[Path | None, Arg("FILE", "-o")] = None
    """File to write: .svg, .png or .html."""
    most: int = Field(300, ge=3)
    """Number of words."""
    perplexity: float = Field(30.0, gt=0)
    """Perplexity of t-SNE: roughly the number of neighbors of each word that count."""
    seed: int = Field(0, ge=0)
    """Seed of the initial positions."""
    title: Annotated[str, Arg("TEXT")] = ""
    """Title."""


class ConvertCommand(VectorOptions):
    """Write vectors in another format."""

    usage = "catena vectors convert -o FILE [--options]"
    example = "catena vectors convert -o vectors.bin --vectors runs/vectors"

    output: Annotated[Path | None, Arg("FILE", "-o")] = None
    """File to write: .safetensors, .bin (word2vec binary) or .txt (word2vec text)."""
    format: _FileFormat | None = None
    """Format of the file. Default: by its extension."""
    kind: Literal["word", "context", "both"] = "word"
    """For a run: word vectors, context vectors, or both concatenated."""


class DocumentsCommand(VectorOptions):
    """Write the vectors of lines from a run with --model dm or dbow. You can query the file like word vectors."""

    usage = "catena vectors documents [TEXT] -o FILE [--options]"
    example = "catena vectors documents new.txt -o lines.bin --vectors runs/paragraphs"

    text: Annotated[Path | None, Arg("[TEXT]", positional=True)] = None
    """Infer vectors for the lines of this file with all other weights frozen. Default: the training text."""
    output: Annotated[Path | None, Arg("FILE", "-o")] = None
    """File to write: .safetensors, .bin or .txt. The vector of line 17 is named 17."""
    epochs: int = Field(20, ge=1)
    """Number of epochs over the new text."""
    seed: int = Field(0, ge=0)
    """Seed for inference on the new text."""
    format: _FileFormat | None = None
    """Format of the file. Default: by its extension."""


# --- the commands -----------------------------------------------------------------------------------------------------


def run(argv: Sequence[str]) -> int:
    """Run one of the subcommands."""
    if not argv or argv[0] in HELP:
        end_with(_help())
    if argv[0] not in _COMMANDS:
        raise UsageError(f"Unknown command 'catena vectors {argv[0]}': {did_you_mean(argv[0], _COMMANDS)}")
    schema, work = _COMMANDS[argv[0]]
    options: Any = _with_vectors(parse_plain(schema, argv[1:]))
    _check(options)
    work(options)
    return 0


def _help() -> str:
    width = max(map(len, _COMMANDS))
    lines = [f"  {name:<{width}}  {(schema.__doc__ or '').split('. ')[0]}" for name, (schema, _) in _COMMANDS.items()]
    return "\n".join([
        "Query, evaluate, plot and convert word vectors, which 'catena train embed' trains.",
        "usage: catena vectors COMMAND … [--options]",
        f"example: {NeighborsCommand.example}",
        "",
        *(line.rstrip(".") for line in lines),
        "",
        "See 'catena vectors COMMAND --help' for the options of a command.",
    ])  # fmt: skip


def _with_vectors(options: Any) -> Any:
    """The options with a file or run that comes before the words as --vectors, as other commands take it."""
    words = getattr(options, "words", ())
    if (
        options.vectors is not None
        or not words
        or not (Path(words[0]).is_file() or (Path(words[0]) / "meta.json").exists())
    ):
        return options
    return options.model_copy(update={"vectors": Path(words[0]), "words": words[1:]})


def _check(options: Any) -> None:
    """Raise UsageError for a wrong number of words, or for a file that is missing or cannot be written."""
    if "words" in type(options).model_fields and not isinstance(options, MapCommand):
        n, allowed = len(options.words), options.n_words
        if n not in allowed:
            more = " or more" if len(allowed) > 1 else ""
            raise UsageError(f"The number of words must be {allowed.start}{more}, got {n}. Usage: {options.usage}.")
    if "output" in type(options).model_fields:
        if options.output is None:
            raise UsageError(f"-o FILE is missing. Usage: {options.usage}.")
        check_writable(options.output, "vectors.bin")


def _neighbors(options: NeighborsCommand) -> None:
    neighbors = _open_table(options).most_similar_of_all(options.words, options.k)
    for word, found in zip(options.words, neighbors, strict=True):
        if len(options.words) > 1:
            _print(word)
        _print_scores(found)


def _analogy(options: AnalogyCommand) -> None:
    a, b, c = options.words
    method = "multiply" if options.multiply else "add"
    _print_scores(_open_table(options).analogy(a, b, c, options.k, method))


def _similarity(options: SimilarityCommand) -> None:
    a, b = options.words
    _print(f"{_open_table(options).similarity(a, b):.4f}")


def _odd_one_out(options: OddOneOutCommand) -> None:
    _print(_open_table(options).odd_one_out(options.words))


def _evaluate(options: EvaluateVectorsCommand) -> None:
    from catena.vectors.evaluate import evaluate_analogies, evaluate_similarities, holds_analogies

    vectors = _open_table(options)
    for path in options.files:
        if holds_analogies(path):
            scores = evaluate_analogies(vectors, path, "multiply" if options.multiply else "add", options.most)
            _print(f"{path}: analogies by {'3CosMul' if options.multiply else '3CosAdd'}")
            for part in (*scores.sections, scores.total):
                accuracy = f"{100 * part.accuracy:6.2f} %" if part.n_scored else "       -"
                counts = f"{part.n_correct:>6} of {part.n_scored}, {part.n_skipped} skipped"
                _print(f"  {part.name:<30} {accuracy}  {counts}")
        else:
            found = evaluate_similarities(vectors, path)
            _print(f"{path}: Spearman {found.spearman:.4f} over {found.n_scored} pairs, {found.n_skipped} skipped")


def _map(options: MapCommand) -> None:
    output = _output(options)
    if output.suffix.lower() not in _PICTURES:
        raise UsageError(f"-o must end in .svg, .png or .html, got {output.name!r}. Rename the file.")
    from catena.vectors.map import project_to_plane, words_of_map

    vectors = _open_table(options)
    words = words_of_map(vectors, options.most, options.words)
    positions = project_to_plane(vectors, words, options.perplexity, options.seed)
    if output.suffix.lower() in (".html", ".htm"):
        from catena.draw.map_page import draw_map_page

        draw_map_page(positions, words, title=options.title or "Map of words").save(output)
    else:
        from catena.draw.map import draw_map

        draw_map(positions, words, width=960, height=720, title=options.title).save(output)
    _print(f"{output}: {len(words)} words")


def _convert(options: ConvertCommand) -> None:
    from catena.vectors.table import VectorTable

    output = _output(options)
    is_word = options.kind == "word"
    vectors = _open_table(options) if is_word else VectorTable.of_model(_open_task(options).model, options.kind)
    vectors.save(output, options.format)
    _print(f"{output}: {len(vectors):,} words, {vectors.d} dimensions")


def _documents(options: DocumentsCommand) -> None:
    output = _output(options)
    vectors = _open_task(options).document_vectors(options.text, options.epochs, options.seed)
    vectors.save(output, options.format)
    _print(f"{output}: {len(vectors):,} lines, {vectors.d} dimensions")


# --- helpers ----------------------------------------------------------------------------------------------------------


def _output(options: MapCommand | ConvertCommand | DocumentsCommand) -> Path:
    assert options.output is not None  # checked before
    return options.output


def _path(options: VectorOptions) -> Path:
    if options.vectors is not None:
        return options.vectors
    runs = sorted(Path("runs").glob("embed-*/meta.json"), key=lambda path: path.stat().st_mtime)
    if not runs:
        raise UsageError("No run of 'catena train embed' found in runs/. Pass --vectors PATH.")
    return runs[-1].parent


def _open_table(options: VectorOptions) -> VectorTable:
    from catena.vectors.table import VectorTable

    return VectorTable.load(_path(options))


def _open_task(options: VectorOptions) -> EmbedTask:
    """The whole model of a run."""
    from catena.tasks.embed.task import EmbedTask
    from catena.tasks.runs import load_task

    task = load_task(_path(options))
    if not isinstance(task, EmbedTask):
        raise UsageError(f"--vectors must be a run of 'catena train embed', got {options.vectors}. Train one.")
    return task


def _print_scores(found: Sequence[tuple[str, float]]) -> None:
    for word, score in found:
        _print(f"  {score:7.4f}  {word}")


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")


_COMMANDS: dict[str, tuple[type[VectorOptions], Callable[[Any], None]]] = {
    "neighbors": (NeighborsCommand, _neighbors),
    "analogy": (AnalogyCommand, _analogy),
    "similarity": (SimilarityCommand, _similarity),
    "odd-one-out": (OddOneOutCommand, _odd_one_out),
    "evaluate": (EvaluateVectorsCommand, _evaluate),
    "map": (MapCommand, _map),
    "convert": (ConvertCommand, _convert),
    "documents": (DocumentsCommand, _documents),
}
