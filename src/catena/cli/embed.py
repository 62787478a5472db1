"""``catena embed …``: word vectors: train them, ask them, score them, map them, write them in other formats."""

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

_USAGE = "catena embed WHAT … [--flags]"
_SUBCOMMANDS = {
    "train": "learn vectors: catena embed train FILES… [--flags]",
    "neighbors": "the nearest words: catena embed neighbors WORD…",
    "analogy": "a is to b as c is to …: catena embed analogy A B C",
    "similarity": "the cosine of two words: catena embed similarity A B",
    "odd-one-out": "the word that does not fit: catena embed odd-one-out WORDS…",
    "evaluate": "scores on analogies and similarities: catena embed evaluate FILES…",
    "map": "a picture or a page of words: catena embed map FILE.svg|png|html",
    "convert": "write vectors in another format: catena embed convert FILE",
    "documents": "write the vectors of lines, or of another text's: catena embed documents FILE [--text FILE]",
}


@dataclass(frozen=True, kw_only=True)
class VectorSourceFlags:
    """The vectors that are asked."""

    vectors: Annotated[Path | None, arg("PATH", "-v", shown="(default: the newest run of embed in runs/)")] = None
    """A run of 'catena embed train', or a file of word2vec, GloVe or fastText."""


@dataclass(frozen=True)
class NeighborFlags(VectorSourceFlags):
    """The words whose neighbors are wanted."""

    words: Annotated[tyro.conf.Positional[tuple[str, ...]], arg("WORD…")] = ()
    """The words."""
    k: Annotated[int, arg("N", "-k")] = 10
    """How many neighbors."""

    def __post_init__(self) -> None:
        check_minimum("--k", self.k, 1)


@dataclass(frozen=True)
class AnalogyFlags(NeighborFlags):
    """Three words of an analogy, and how the fourth is scored."""

    multiply: Annotated[bool, arg()] = False
    """Score by the product of 3CosMul, not by the sum of 3CosAdd."""


@dataclass(frozen=True)
class WordFlags(VectorSourceFlags):
    """Words to be told about."""

    words: Annotated[tyro.conf.Positional[tuple[str, ...]], arg("WORD…")] = ()
    """The words."""


@dataclass(frozen=True)
class EvaluateVectorsFlags(VectorSourceFlags):
    """Files of analogies and similarities."""

    files: Annotated[tyro.conf.Positional[tuple[Path, ...]], arg("FILES…")] = ()
    """Analogies (four words on a line, as in questions-words) or similarities (two words and a number)."""
    multiply: Annotated[bool, arg()] = False
    """Answer analogies by 3CosMul, not by 3CosAdd."""
    most: Annotated[int, arg("N")] = 300_000
    """Answer analogies with so many words only, the most frequent ones."""

    def __post_init__(self) -> None:
        check_minimum("--most", self.most, 4)


@dataclass(frozen=True)
class MapFlags(VectorSourceFlags):
    """Which words stand on the map, and how they are laid out."""

    output: Annotated[tyro.conf.Positional[Path], arg("FILE")]
    """The file to write: .svg, .png or .html."""
    words: Annotated[tuple[str, ...], arg("WORD…", "-w")] = ()
    """Show these words and their neighbors; the most frequent words if not set."""
    most: Annotated[int, arg("N")] = 300
    """How many words."""
    perplexity: Annotated[float, arg("X")] = 30.0
    """How many neighbors each word minds, about."""
    seed: Annotated[int, arg("N")] = 0
    """The seed of the first places."""
    title: Annotated[str, arg("TEXT")] = ""
    """A heading."""

    def __post_init__(self) -> None:
        check_minimum("--most", self.most, 3)
        if not self.perplexity > 0:
            raise UsageError(f"--perplexity must be above 0, and is {self.perplexity:g}")


@dataclass(frozen=True)
class ConvertFlags(VectorSourceFlags):
    """The file and the format to write vectors in."""

    output: Annotated[tyro.conf.Positional[Path], arg("FILE")]
    """The file to write: .safetensors, .bin (word2vec binary) or .txt (word2vec text)."""
    format: Annotated[Literal["catena", "word2vec", "word2vec-text", "glove"] | None, arg("FORMAT")] = None
    """catena, word2vec, word2vec-text or glove; the ending of the name decides if it is not set."""
    kind: Annotated[Literal["word", "context", "both"], arg("KIND", shown="(default: word)")] = "word"
    """Of a run: the vectors of words, of contexts, or both side by side."""


@dataclass(frozen=True)
class DocumentFlags(VectorSourceFlags):
    """Lines whose vectors are wanted, of the training or of another text."""

    output: Annotated[tyro.conf.Positional[Path], arg("FILE")]
    """The file to write: .safetensors, .bin or .txt. Line 17 of the text is called 17 in it."""
    text: Annotated[Path | None, arg("FILE")] = None
    """Another text, whose lines get vectors with all else kept as it is; the text of the training if not set."""
    epochs: Annotated[int, arg("N")] = 20
    """Passes over the other text."""
    seed: Annotated[int, arg("N")] = 0
    """The seed of what is drawn for the other text."""
    format: Annotated[Literal["catena", "word2vec", "word2vec-text", "glove"] | None, arg("FORMAT")] = None
    """catena, word2vec, word2vec-text or glove; the ending of the name decides if it is not set."""

    def __post_init__(self) -> None:
        check_minimum("--epochs", self.epochs, 1)


def run(argv: Sequence[str]) -> int:
    """Hand over to what is asked for: train, neighbors, analogy and so on."""
    if not argv or argv[0] in ("-h", "--help"):
        width = max(map(len, _SUBCOMMANDS))
        _say(f"usage: {_USAGE}\n\n" + "\n".join(f"  {name:<{width}}  {words}" for name, words in _SUBCOMMANDS.items()))
        _say("\n'catena embed WHAT --help' tells more.")
        return 0
    if argv[0] not in _SUBCOMMANDS:
        raise UsageError(f"there is no 'catena embed {argv[0]}': {did_you_mean(argv[0], _SUBCOMMANDS)}")
    return _WORK[argv[0]](argv[1:])


def _train(argv: Sequence[str]) -> int:
    from catena.cli import train

    about = "Learn vectors of the words of a text: words stand between blanks, a line is a sentence or a document."
    return train.run(["embed", *argv], "catena embed train FILES… [--flags]", about)


def _neighbors(argv: Sequence[str]) -> int:
    about = "The nearest words of each word, by the cosine."
    flags = parse_flags(NeighborFlags, argv, "catena embed neighbors WORD…", about)
    _need(flags.words, 1, "neighbors WORD…")
    vectors = _vectors(flags)
    for word, found in zip(flags.words, vectors.most_similar_of_all(flags.words, flags.k), strict=True):
        if len(flags.words) > 1:
            _say(word)
        _list(found)
    return 0


def _analogy(argv: Sequence[str]) -> int:
    about = "What is to C as B is to A: 'analogy man king woman' should give queen."
    flags = parse_flags(AnalogyFlags, argv, "catena embed analogy A B C", about)
    if len(flags.words) != 3:
        raise UsageError(f"an analogy is of three words, and {len(flags.words)} are given: catena embed analogy A B C")
    a, b, c = flags.words
    _list(_vectors(flags).analogy(a, b, c, flags.k, "multiply" if flags.multiply else "add"))
    return 0


def _similarity(argv: Sequence[str]) -> int:
    flags = parse_flags(WordFlags, argv, "catena embed similarity A B", "The cosine of two words.")
    if len(flags.words) != 2:
        raise UsageError(f"give two words, not {len(flags.words)}: catena embed similarity A B")
    _say(f"{_vectors(flags).similarity(*flags.words):.4f}")
    return 0


def _odd_one_out(argv: Sequence[str]) -> int:
    about = "The word that is farthest from the mean of all."
    flags = parse_flags(WordFlags, argv, "catena embed odd-one-out WORDS…", about)
    _need(flags.words, 3, "odd-one-out WORDS…")
    _say(_vectors(flags).odd_one_out(flags.words))
    return 0


def _evaluate(argv: Sequence[str]) -> int:
    about = "Score vectors on analogies, by section, and on similarities that people gave (Spearman)."
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
    flags = parse_flags(
        MapFlags, argv, "catena embed map FILE", "Words in a plane, by t-SNE, so that near ones lie near."
    )
    ending = flags.output.suffix.lower()
    if ending not in (".svg", ".png", ".html", ".htm"):
        raise UsageError(f"a map is written as .svg, .png or .html, and the file is to be called {flags.output.name!r}")
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
    _say(f"{flags.output}: {len(vectors):,} words, {vectors.d} numbers each")
    return 0


def _documents(argv: Sequence[str]) -> int:
    about = (
        "Write the vectors of the lines of a text, of a run with --model dm or dbow; then ask them as words are asked."
    )
    flags = parse_flags(DocumentFlags, argv, "catena embed documents FILE", about)
    from catena.tasks.embed.application import documents

    vectors = documents(_place(flags), flags.text, flags.epochs, flags.seed)
    vectors.save(flags.output, flags.format)
    _say(f"{flags.output}: {len(vectors):,} lines, {vectors.d} numbers each")
    return 0


def _need(given: Sequence[object], least: int, usage: str) -> None:
    if len(given) < least:
        words = {1: "a word or a file", 3: "three words or more"}[least]
        raise UsageError(f"give {words}: catena embed {usage}")


def _place(flags: VectorSourceFlags) -> Path:
    if flags.vectors is not None:
        return flags.vectors
    runs = sorted(Path("runs").glob("embed-*/meta.json"), key=lambda path: path.stat().st_mtime)
    if not runs:
        raise UsageError("there are no vectors in runs/: name a run or a file by --vectors PATH")
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
