"""``catena embed …``, which trains, queries, evaluates, plots and converts word vectors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from catena.cli.flags import arg, check_minimum, parse_flags
from catena.cli.usage import UsageError
from catena.registry import did_you_mean

if TYPE_CHECKING:
    from catena.vectors.table import WordVectors

_USAGE = "catena embed COMMAND … [--options]"
_SUBCOMMANDS = {
    "train": "train vectors: catena embed train FILES… [--options]",
    "neighbors": "nearest words: catena embed neighbors WORD…",
    "analogy": "a is to b as c is to …: catena embed analogy A B C",
    "similarity": "cosine of two words: catena embed similarity A B",
    "odd-one-out": "the word that does not fit: catena embed odd-one-out WORDS…",
    "evaluate": "scores on analogies and similarities: catena embed evaluate FILES…",
    "map": "an image or web page of words: catena embed map FILE.svg|png|html",
    "convert": "write vectors in another format: catena embed convert FILE",
    "documents": "write the vectors of training lines or of a new text: catena embed documents FILE [--text FILE]",
}


@dataclass(frozen=True, kw_only=True)
class VectorSourceFlags:
    """Options that select the vectors."""

    vectors: Annotated[Path | None, arg("PATH", "-v", shown="(default: the newest run of embed in runs/)")] = None
    """A run of 'catena embed train', or a word2vec, GloVe or fastText file."""


@dataclass(frozen=True)
class NeighborFlags(VectorSourceFlags):
    """Options of ``catena embed neighbors``."""

    words: Annotated[tyro.conf.Positional[tuple[str, ...]], arg("WORD…")] = ()
    """Words to look up."""
    k: Annotated[int, arg("N", "-k")] = 10
    """Number of neighbors."""

    def __post_init__(self) -> None:
        check_minimum("--k", self.k, 1)


@dataclass(frozen=True)
class AnalogyFlags(NeighborFlags):
    """Options of ``catena embed analogy``."""

    multiply: Annotated[bool, arg()] = False
    """Score by the product (3CosMul) instead of the sum (3CosAdd)."""


@dataclass(frozen=True)
class WordFlags(VectorSourceFlags):
    """Options of the commands that take words."""

    words: Annotated[tyro.conf.Positional[tuple[str, ...]], arg("WORD…")] = ()
    """Words to look up."""


@dataclass(frozen=True)
class EvaluateVectorsFlags(VectorSourceFlags):
    """Options of ``catena embed evaluate``."""

    files: Annotated[tyro.conf.Positional[tuple[Path, ...]], arg("FILES…")] = ()
    """Analogies (four words per line, as in questions-words) or similarities (two words and a number per line)."""
    multiply: Annotated[bool, arg()] = False
    """Solve analogies by 3CosMul instead of 3CosAdd."""
    most: Annotated[int, arg("N")] = 300_000
    """Solve analogies with the N most frequent words only."""

    def __post_init__(self) -> None:
        check_minimum("--most", self.most, 4)


@dataclass(frozen=True)
class MapFlags(VectorSourceFlags):
    """Options of ``catena embed map``."""

    output: Annotated[tyro.conf.Positional[Path], arg("FILE")]
    """File to write: .svg, .png or .html."""
    words: Annotated[tuple[str, ...], arg("WORD…", "-w")] = ()
    """Show these words and their neighbors. Default: the most frequent words."""
    most: Annotated[int, arg("N")] = 300
    """Number of words."""
    perplexity: Annotated[float, arg("X")] = 30.0
    """Perplexity of t-SNE: roughly the number of neighbors of each word that count."""
    seed: Annotated[int, arg("N")] = 0
    """Seed of the initial positions."""
    title: Annotated[str, arg("TEXT")] = ""
    """Title."""

    def __post_init__(self) -> None:
        check_minimum("--most", self.most, 3)
        if not self.perplexity > 0:
            raise UsageError(f"--perplexity must be above 0, got {self.perplexity:g}. Use 30, for example.")


@dataclass(frozen=True)
class ConvertFlags(VectorSourceFlags):
    """Options of ``catena embed convert``."""

    output: Annotated[tyro.conf.Positional[Path], arg("FILE")]
    """File to write: .safetensors, .bin (word2vec binary) or .txt (word2vec text)."""
    format: Annotated[Literal["catena", "word2vec", "word2vec-text", "glove"] | None, arg("FORMAT")] = None
    """catena, word2vec, word2vec-text or glove. Default: by the file extension."""
    kind: Annotated[Literal["word", "context", "both"], arg("KIND", shown="(default: word)")] = "word"
    """For a run: word vectors, context vectors, or both concatenated."""


@dataclass(frozen=True)
class DocumentFlags(VectorSourceFlags):
    """Options of ``catena embed documents``."""

    output: Annotated[tyro.conf.Positional[Path], arg("FILE")]
    """File to write: .safetensors, .bin or .txt. The vector of line 17 is named 17."""
    text: Annotated[Path | None, arg("FILE")] = None
    """Infer vectors for the lines of this text with all other weights frozen. Default: the training text."""
    epochs: Annotated[int, arg("N")] = 20
    """Number of epochs over the new text."""
    seed: Annotated[int, arg("N")] = 0
    """Seed for inference on the new text."""
    format: Annotated[Literal["catena", "word2vec", "word2vec-text", "glove"] | None, arg("FORMAT")] = None
    """catena, word2vec, word2vec-text or glove. Default: by the file extension."""

    def __post_init__(self) -> None:
        check_minimum("--epochs", self.epochs, 1)


def run(argv: Sequence[str]) -> int:
    """Run one of the subcommands."""
    if not argv or argv[0] in ("-h", "--help"):
        width = max(map(len, _SUBCOMMANDS))
        _say(f"usage: {_USAGE}\n\n" + "\n".join(f"  {name:<{width}}  {words}" for name, words in _SUBCOMMANDS.items()))
        _say("\nSee 'catena embed COMMAND --help' for the options of a command.")
        return 0
    if argv[0] not in _SUBCOMMANDS:
        raise UsageError(f"Unknown command 'catena embed {argv[0]}': {did_you_mean(argv[0], _SUBCOMMANDS)}")
    return _WORK[argv[0]](argv[1:])


def _train(argv: Sequence[str]) -> int:
    from catena.cli import train

    about = "Train vectors of whitespace-separated words. Each line is a sentence or a document."
    return train.run(["embed", *argv], "catena embed train FILES… [--options]", about)


def _neighbors(argv: Sequence[str]) -> int:
    about = "The nearest words of each word, by cosine."
    flags = parse_flags(NeighborFlags, argv, "catena embed neighbors WORD…", about)
    _need(flags.words, 1, "neighbors WORD…")
    vectors = _vectors(flags)
    for word, found in zip(flags.words, vectors.most_similar_of_all(flags.words, flags.k), strict=True):
        if len(flags.words) > 1:
            _say(word)
        _list(found)
    return 0


def _analogy(argv: Sequence[str]) -> int:
    about = "The word that is to C as B is to A: 'analogy man king woman' should give queen."
    flags = parse_flags(AnalogyFlags, argv, "catena embed analogy A B C", about)
    if len(flags.words) != 3:
        raise UsageError(f"An analogy must have 3 words, got {len(flags.words)}. Usage: catena embed analogy A B C.")
    a, b, c = flags.words
    _list(_vectors(flags).analogy(a, b, c, flags.k, "multiply" if flags.multiply else "add"))
    return 0


def _similarity(argv: Sequence[str]) -> int:
    flags = parse_flags(WordFlags, argv, "catena embed similarity A B", "The cosine of two words.")
    if len(flags.words) != 2:
        raise UsageError(f"A similarity must have 2 words, got {len(flags.words)}. Usage: catena embed similarity A B.")
    _say(f"{_vectors(flags).similarity(*flags.words):.4f}")
    return 0


def _odd_one_out(argv: Sequence[str]) -> int:
    about = "The word that is farthest from the mean of all words."
    flags = parse_flags(WordFlags, argv, "catena embed odd-one-out WORDS…", about)
    _need(flags.words, 3, "odd-one-out WORDS…")
    _say(_vectors(flags).odd_one_out(flags.words))
    return 0


def _evaluate(argv: Sequence[str]) -> int:
    about = "Score vectors on analogies (accuracy by section) and on human similarity ratings (Spearman)."
    flags = parse_flags(EvaluateVectorsFlags, argv, "catena embed evaluate FILES…", about)
    _need(flags.files, 1, "evaluate FILES…")
    from catena.vectors.evaluate import evaluate_analogies, evaluate_similarities, holds_analogies

    vectors = _vectors(flags)
    for path in flags.files:
        if holds_analogies(path):
            scores = evaluate_analogies(vectors, path, "multiply" if flags.multiply else "add", flags.most)
            _say(f"{path}: analogies by {'3CosMul' if flags.multiply else '3CosAdd'}")
            for section in (*scores.sections, scores.total):
                share = f"{100 * section.accuracy:6.2f} %" if section.asked else "       -"
                _say(
                    f"  {section.name:<30} {share}  {section.right:>6} of {section.asked}, {section.left_out} left out"
                )
        else:
            found = evaluate_similarities(vectors, path)
            _say(f"{path}: Spearman {found.spearman:.4f} over {found.asked} pairs, {found.left_out} left out")
    return 0


def _map(argv: Sequence[str]) -> int:
    flags = parse_flags(MapFlags, argv, "catena embed map FILE", "Plot words in two dimensions by t-SNE.")
    ending = flags.output.suffix.lower()
    if ending not in (".svg", ".png", ".html", ".htm"):
        raise UsageError(f"FILE must end in .svg, .png or .html, got {flags.output.name!r}. Rename the file.")
    from catena.vectors.map import project_to_plane, words_of_map

    vectors = _vectors(flags)
    words = words_of_map(vectors, flags.most, flags.words)
    places = project_to_plane(vectors, words, flags.perplexity, flags.seed)
    if ending in (".html", ".htm"):
        from catena.draw.map_page import draw_map_page

        draw_map_page(places, words, title=flags.title or "Map of words").save(flags.output)
    else:
        from catena.draw.map import draw_map

        draw_map(places, words, width=960, height=720, title=flags.title).save(flags.output)
    _say(f"{flags.output}: {len(words)} words")
    return 0


def _convert(argv: Sequence[str]) -> int:
    flags = parse_flags(ConvertFlags, argv, "catena embed convert FILE", "Write vectors in another format.")
    if flags.kind == "word":
        vectors = _vectors(flags)
    else:
        from catena.tasks.embed.application import load_model
        from catena.vectors.table import WordVectors

        vectors = WordVectors.of_model(load_model(_place(flags)), flags.kind)
    vectors.save(flags.output, flags.format)
    _say(f"{flags.output}: {len(vectors):,} words, {vectors.d} dimensions")
    return 0


def _documents(argv: Sequence[str]) -> int:
    about = "Write the vectors of lines from a run with --model dm or dbow. You can query the file like word vectors."
    flags = parse_flags(DocumentFlags, argv, "catena embed documents FILE", about)
    from catena.tasks.embed.application import documents

    vectors = documents(_place(flags), flags.text, flags.epochs, flags.seed)
    vectors.save(flags.output, flags.format)
    _say(f"{flags.output}: {len(vectors):,} lines, {vectors.d} dimensions")
    return 0


def _need(given: Sequence[object], least: int, usage: str) -> None:
    if len(given) < least:
        words = {1: "a word or a file", 3: "three words or more"}[least]
        raise UsageError(f"Pass {words}. Usage: catena embed {usage}.")


def _place(flags: VectorSourceFlags) -> Path:
    if flags.vectors is not None:
        return flags.vectors
    runs = sorted(Path("runs").glob("embed-*/meta.json"), key=lambda path: path.stat().st_mtime)
    if not runs:
        raise UsageError("No run of 'catena embed train' found in runs/. Pass --vectors PATH.")
    return runs[-1].parent


def _vectors(flags: VectorSourceFlags) -> WordVectors:
    from catena.vectors.table import WordVectors

    return WordVectors.load(_place(flags))


def _list(found: Sequence[tuple[str, float]]) -> None:
    for word, score in found:
        _say(f"  {score:7.4f}  {word}")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


_WORK: dict[str, Callable[[Sequence[str]], int]] = {
    "train": _train,
    "neighbors": _neighbors,
    "analogy": _analogy,
    "similarity": _similarity,
    "odd-one-out": _odd_one_out,
    "evaluate": _evaluate,
    "map": _map,
    "convert": _convert,
    "documents": _documents,
}
