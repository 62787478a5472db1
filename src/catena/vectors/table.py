"""Vectors of words, ready to be asked: neighbors, analogies, similarities, the odd one out.

vectors = Vectors.load("vectors.safetensors")
vectors["king"], vectors.most_similar("king"), vectors.analogy("man", "king", "woman")
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Float, Float32, Int

from catena.checkpoint import CONFIG, is_run, last_checkpoint, open_checkpoint
from catena.config import load as load_config
from catena.data.readers.stored_vectors import StoredVectors, read_stored_vectors
from catena.data.writing_vectors import write_glove, write_stored_vectors, write_word2vec
from catena.errors import DataError, UnknownNameError
from catena.vectors.config import SubwordConfig, VectorConfig
from catena.vectors.model import VectorNetwork, word_parts
from catena.vectors.neighbors import best_analogies, checked_number, lengths, nearest
from catena.vectors.words import WordIndex

if TYPE_CHECKING:
    import torch

OWN = "vectors.safetensors"
"""The vectors of a run, in its folder."""
Kind = Literal["word", "context", "both"]
_ScoredWords = list[tuple[str, float]]


@dataclass(frozen=True, eq=False)
class Subwords:
    """Rows of character n-grams, from which words that have no row of their own get a vector."""

    settings: SubwordConfig
    rows: Float32[np.ndarray, "n d"]


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Words and their vectors: ``matrix[i]`` is that of ``words[i]``.

    The matrix may lie in a file that is mapped into memory; nothing here copies it.
    """

    words: WordIndex
    matrix: Float32[np.ndarray, "v d"]
    subwords: Subwords | None = None

    # --- files ------------------------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: str | PathLike[str]) -> WordVectors:
        """Read vectors: a run folder, or a file in Catena's own format (mapped into memory), of word2vec (text or
        binary), GloVe or fastText (``.vec``, ``.bin``). The format is recognized by content."""
        path = Path(path)
        if path.is_dir():
            if (path / OWN).is_file():
                path = path / OWN
            else:
                return cls._of_run(path)
        stored = read_stored_vectors(path)
        words = WordIndex(stored.names, stored.ends, stored.counts)
        subwords = None
        if stored.buckets is not None and len(stored.buckets):
            settings = SubwordConfig(shortest=stored.shortest, longest=stored.longest, buckets=len(stored.buckets))
            subwords = Subwords(settings, stored.buckets)
        return cls(words, stored.matrix, subwords)

    @classmethod
    def _of_run(cls, path: Path) -> WordVectors:
        """The vectors of a training that is not over, as its last checkpoint has them."""
        checkpoint = last_checkpoint(path) if is_run(path) else open_checkpoint(path)
        settings = load_config(_AnyVectors, checkpoint.folder / CONFIG)
        return cls.of_model(VectorNetwork.of_tensors(settings, checkpoint.weights()))

    @classmethod
    def of_model(cls, model: VectorNetwork, kind: Kind = "word") -> WordVectors:
        """The vectors of a trained model: of words, of their contexts, or both side by side."""
        if kind == "context":
            return cls(model.words, np.ascontiguousarray(model.context_vectors()))
        matrix = np.ascontiguousarray(model.word_vectors())
        if kind == "both":
            return cls(model.words, np.concatenate([matrix, model.context_vectors()], axis=1))
        if not model.buckets:
            return cls(model.words, matrix)
        rows = np.ascontiguousarray(model.bucket_vectors())
        return cls(model.words, matrix, Subwords(model.settings.subwords, rows))

    @classmethod
    def of(cls, words: Sequence[str], matrix: Float[np.ndarray, "v d"]) -> WordVectors:
        """Vectors from words and an array."""
        if len(words) != len(matrix):
            raise DataError(f"there are {len(words)} words and {len(matrix)} vectors: there must be one for each")
        return cls(WordIndex.of(words), np.ascontiguousarray(matrix, np.float32))

    def save(self, path: str | PathLike[str], format: str | None = None) -> Path:
        """Write the vectors, whole or not at all. The format is ``catena`` (``.safetensors``), ``word2vec`` (``.bin``),
        ``word2vec-text`` (``.txt``, ``.vec``) or ``glove``; without it the ending of the name decides."""
        path = Path(path)
        endings = {".safetensors": "catena", ".bin": "word2vec", ".txt": "word2vec-text", ".vec": "word2vec-text"}
        format = format or endings.get(path.suffix.lower())
        if format == "catena":
            subwords = self.subwords
            span = (subwords.settings.shortest, subwords.settings.longest) if subwords else (0, 0)
            stored = StoredVectors(
                self.words.names, self.words.ends, self.words.counts, self.matrix, subwords.rows if subwords else None,
                *span,
            )  # fmt: skip
            write_stored_vectors(path, stored)
        elif format in ("word2vec", "word2vec-text"):
            write_word2vec(path, self.words, self.matrix, binary=format == "word2vec")
        elif format == "glove":
            write_glove(path, self.words, self.matrix)
        else:
            raise DataError(
                f"vectors can be saved as catena, word2vec, word2vec-text or glove, and {path.name!r} says none of "
                f"them: end the name in .safetensors, .bin or .txt, or give the format"
            )
        return path

    # --- looking up -------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.words)

    @property
    def d(self) -> int:
        """Numbers of a vector."""
        return self.matrix.shape[1]

    def __contains__(self, word: object) -> bool:
        """Whether a word has a row of its own."""
        return word in self.words

    def __getitem__(self, word: str) -> Float32[np.ndarray, " d"]:
        """The vector of a word: a view of its row; with character n-grams, words without a row get their mean."""
        at = int(self.words.find([word])[0])
        if at >= 0:
            return self.matrix[at]
        if self.subwords is None:
            self.words.number(word)  # says what is near
        return self._unknown(word)

    def get(self, word: str, default: np.ndarray | None = None) -> Float32[np.ndarray, " d"] | np.ndarray | None:
        """Return the vector of a word as by ``vectors[word]``, or ``default`` if it has none."""
        try:
            return self[word]
        except UnknownNameError:
            return default

    def _unknown(self, word: str) -> Float32[np.ndarray, " d"]:
        assert self.subwords is not None
        _, parts = word_parts(WordIndex.of([word]), self.subwords.settings, 0)
        if not len(parts):
            raise UnknownNameError(f"there is no vector for {word!r}, and it has no character n-grams either")
        return np.asarray(self.subwords.rows[parts], np.float32).mean(0)

    def rows(self, words: Iterable[str]) -> Float32[np.ndarray, "n d"]:
        """The vectors of several words, one under another."""
        return np.stack([self[word] for word in words])

    def tensor(self) -> torch.Tensor:
        """The matrix as a torch tensor, which shares its memory: nothing is copied."""
        import torch

        return torch.from_numpy(self.matrix)

    @cached_property
    def norms(self) -> Float32[np.ndarray, " v"]:
        """The length of each vector; 1 for a vector of zeros."""
        return lengths(self.matrix)

    # --- questions --------------------------------------------------------------------------------------------

    def similarity(self, a: str, b: str) -> float:
        """The cosine of two words."""
        x, y = (self[word].astype(np.float64) for word in (a, b))
        return float(x @ y / max(float(np.linalg.norm(x) * np.linalg.norm(y)), 1e-30))

    def most_similar(self, word: str | Float[np.ndarray, " d"], k: int = 10, most: int | None = None) -> _ScoredWords:
        """The nearest words of a word, which is not among them, or of a vector: with their cosines, best first.

        ``most`` looks at so many words only, the most frequent ones where they are sorted so.
        """
        if isinstance(word, str):
            return self.most_similar_of_all([word], k, most)[0]
        return self._named(*nearest(self.matrix, self.norms, np.asarray(word, np.float32)[None], k, most))[0]

    def most_similar_of_all(self, words: Sequence[str], k: int = 10, most: int | None = None) -> list[_ScoredWords]:
        """The nearest words of each of several words, in one pass over the vectors."""
        if not len(words):
            return []
        scores, places = nearest(self.matrix, self.norms, self.rows(words), checked_number(k) + 1, most)
        own = self.words.find(list(words))
        named = self._named(scores, places)
        return [
            [pair for pair, place in zip(row, at, strict=False) if place != mine][:k]
            for row, at, mine in zip(named, places.tolist(), own.tolist(), strict=True)
        ]

    def analogy(
        self, a: str, b: str, c: str, k: int = 10, method: str = "add", most: int | None = None
    ) -> _ScoredWords:
        """What is to ``c`` as ``b`` is to ``a``: with man, king, woman it should be queen.

        ``add`` takes the cosine with b - a + c (3CosAdd, Mikolov et al. 2013); ``multiply`` the product of 3CosMul
        (Levy and Goldberg 2014). The three words themselves are no answers.
        """
        if method not in ("add", "multiply"):
            raise DataError(f"analogies are found by the methods 'add' and 'multiply', and {method!r} is none of them")
        question = np.array([[self.words.number(word) for word in (a, b, c)]])
        found = best_analogies(self.matrix, self.norms, question, k, method == "multiply", most)
        return self._named(*found)[0]

    def odd_one_out(self, words: Sequence[str]) -> str:
        """The word that is farthest, by the cosine, from the mean of the unit vectors of all."""
        if len(words) < 3:
            raise DataError(f"of {len(words)} words none is the odd one: give three or more")
        rows = self.rows(words).astype(np.float64)
        units = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)
        return words[int(np.argmin(units @ units.mean(0)))]

    def _named(self, scores: Float32[np.ndarray, "n k"], places: Int[np.ndarray, "n k"]) -> list[_ScoredWords]:
        return [
            [(self.words[place], score) for score, place in zip(row, at, strict=True) if place >= 0]
            for row, at in zip(scores.tolist(), places.tolist(), strict=True)
        ]


class _AnyVectors(VectorConfig):
    """The settings of a run, whatever else its config holds."""

    model_config = VectorConfig.model_config | {"extra": "ignore"}
