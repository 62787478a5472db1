"""Paragraphs of files and folders, and the rankers that choose those that may answer a question.

Paragraphs of files and folders: blocks of text between blank lines, with their offsets in the file.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int64

from catena.data.config import WordTokenizerConfig
from catena.data.examples import SourceLocation
from catena.data.files import open_text
from catena.data.reading import ReadCounter
from catena.data.tokenize import Tokenizer, build_tokenizer
from catena.errors import DataError, FormatError
from catena.retrieval.config import BM25Config, TfidfConfig
from catena.retrieval.index import TermPart, VectorPart, search
from catena.retrieval.terms import learn_terms

_BLOCK = re.compile(r"[^\S\n]*\S[^\n]*(?:\n[^\S\n]*\S[^\n]*)*")
"""Successive lines that are not blank."""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A block of text. ``start`` is its first character in the decoded text of the file, with ``\\n`` as line end."""

    text: str
    file: str
    start: int
    line: int

    @property
    def end(self) -> int:
        """The index after its last character."""
        return self.start + len(self.text)


def split_paragraphs(text: str, file: str = "") -> Iterator[Paragraph]:
    """The blocks of a text between blank lines, without blanks at their ends."""
    line = 1
    at = 0
    for match in _BLOCK.finditer(text):
        block = match[0]
        start = match.start() + len(block) - len(block.lstrip())
        line += text.count("\n", at, start)
        at = start
        yield Paragraph(block.strip(), file, start, line)


def read_paragraphs(
    path: Path | str, counter: ReadCounter | None = None, *, encoding: str | None = None
) -> list[Paragraph]:
    """The paragraphs of a file, or of all text files in a folder and its subfolders, sorted by path.

    Files in a folder that are not text are counted as dropped. Hidden files and folders are skipped.

    Args:
        path: a file or folder.
        counter: counts files.
        encoding: UTF-8 if omitted.

    Raises:
        FormatError: if ``path`` is a file that is not text.
        DataError: if there is no paragraph.
    """
    path, counter = Path(path), counter or ReadCounter()
    found: list[Paragraph] = []
    for file in _files(path):
        counter.saw()
        try:
            with open_text(file, encoding) as lines:
                text = "\n".join(line for _, line in lines)
        except FormatError as error:
            if file == path:
                raise
            counter.drop("not text", SourceLocation(str(file), 1), str(error))
            continue
        found.extend(split_paragraphs(text, str(file)))
    if not found:
        raise DataError(
            f"{path} has no paragraph of text: {counter.counts(counter.used).sentence('')}. Add a text file."
        )
    return found


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(names) if not name.startswith("."))


# --- ranking ----------------------------------------------------------------------------------------------------------


TextEncoder = Callable[[Sequence[str]], Float32[np.ndarray, "n d"]]
"""Maps texts to vectors."""


class ParagraphRanker(ABC):
    """Ranks a fixed list of paragraphs."""

    @abstractmethod
    def rank(self, questions: Sequence[str], k: int) -> tuple[Float32[np.ndarray, "n k"], Int64[np.ndarray, "n k"]]:
        """The scores and indices of the ``k`` best paragraphs for each question, best first; all if there are fewer."""


class UnrankedParagraphs(ParagraphRanker):
    """All paragraphs with the same score, for texts that are read as a whole."""

    def __init__(self, paragraphs: Sequence[str]) -> None:
        self.n = len(paragraphs)

    def rank(self, questions: Sequence[str], k: int) -> tuple[Float32[np.ndarray, "n k"], Int64[np.ndarray, "n k"]]:
        n = min(k, self.n)
        indices = np.tile(np.arange(n, dtype=np.int64), (len(questions), 1))
        return np.zeros(indices.shape, np.float32), indices


class ParagraphTermRanker(ParagraphRanker):
    """Ranks by BM25 or TF-IDF with the word frequencies of the paragraphs. Tokens without letter or digit are ignored.

    Args:
        paragraphs: the texts.
        config: the weights; BM25 with k1 = 1.2 and b = 0.75 by default.
        tokenizer: splits paragraphs and questions; words in lower case by default.
    """

    def __init__(
        self,
        paragraphs: Sequence[str],
        config: BM25Config | TfidfConfig | None = None,
        tokenizer: Tokenizer | None = None,
    ) -> None:
        self.tokenizer = tokenizer or build_tokenizer(WordTokenizerConfig(hyphens="split", lowercase=True))
        tokens = [self._words(text) for text in paragraphs]
        self.matcher = learn_terms(config or BM25Config(), tokens)
        self.part = TermPart.of([self.matcher.document(document) for document in tokens])

    def rank(self, questions: Sequence[str], k: int) -> tuple[Float32[np.ndarray, "n k"], Int64[np.ndarray, "n k"]]:
        queries = [self.matcher.query(self._words(question)) for question in questions]
        return search(self.part, queries, len(queries), k)

    def _words(self, text: str) -> list[str]:
        return [token for token in self.tokenizer.tokens(text) if any(map(str.isalnum, token))]


class ParagraphVectorRanker(ParagraphRanker):
    """Ranks by dot products of vectors, such as the queries and keys of a dual encoder.

    Args:
        paragraphs: the texts.
        keys: maps paragraphs to vectors.
        queries: maps questions to vectors.
    """

    def __init__(self, paragraphs: Sequence[str], keys: TextEncoder, queries: TextEncoder) -> None:
        self.part = VectorPart(np.ascontiguousarray(keys(paragraphs), np.float32))
        self.queries = queries

    def rank(self, questions: Sequence[str], k: int) -> tuple[Float32[np.ndarray, "n k"], Int64[np.ndarray, "n k"]]:
        return search(self.part, np.ascontiguousarray(self.queries(questions), np.float32), len(questions), k)
