"""Word vectors with queries: neighbors, analogies, similarities, the odd one out.

vectors = VectorTable.load("vectors.safetensors")
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
from catena.config import read_toml
from catena.data.readers.own_vectors import StoredVectors, write_glove, write_stored_vectors, write_word2vec
from catena.data.readers.vectors import read_stored_vectors
from catena.errors import DataError, UnknownNameError
from catena.vectors.config import SubwordConfig, VectorConfig, VectorTrainingConfig
from catena.vectors.model import VectorNetwork, word_parts
from catena.vectors.neighbors import best_analogies, checked_number, lengths, nearest
from catena.vectors.word_index import WordIndex

if TYPE_CHECKING:
    import torch

OWN = "vectors.safetensors"
"""The name of the vectors file in a run folder."""
Kind = Literal["word", "context", "both"]
_ScoredWords = list[tuple[str, float]]


@dataclass(frozen=True, eq=False)
class Subwords:
    """Rows of character n-grams, which give vectors to words without a row."""

    settings: SubwordConfig
    rows: Float32[np.ndarray, "n d"]


@dataclass(frozen=True, eq=False)
class VectorTable:
    """Words and their vectors: ``matrix[i]`` is the vector of ``words[i]``.

    The matrix may be memory-mapped; no method copies it.

    Args:
        words: the words with their counts.
        matrix: ``matrix[i]`` is the vector of word i.
        subwords: vectors of character n-grams, from which unknown words get theirs.
    """

    words: WordIndex
    matrix: Float32[np.ndarray, "v d"]
    subwords: Subwords | None = None

    # --- files ------------------------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: str | PathLike[str]) -> VectorTable:
        """Load vectors from a run folder or a file. The format is detected by content.

        Files may be in Catena's own format (memory-mapped), word2vec (text or binary), GloVe or fastText (``.vec``,
        ``.bin``).
        """
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
    def _of_run(cls, path: Path) -> VectorTable:
        """The vectors of an unfinished training, from its last checkpoint."""
        checkpoint = last_checkpoint(path) if is_run(path) else open_checkpoint(path)
        task = read_toml(checkpoint.folder / CONFIG)[0].get("task")
        if task != "embed":
            raise DataError(
                f"{path} must be a run of the task embed, got one of the task {task}. Train vectors with 'catena train "
                "embed'."
            )
        settings = load_config(_AnyVectors, checkpoint.folder / CONFIG)
        return cls.of_model(VectorNetwork.of_tensors(settings, checkpoint.weights()))

    @classmethod
    def of_model(cls, model: VectorNetwork, kind: Kind = "word") -> VectorTable:
        """The vectors of a trained model: word vectors, context vectors, or both concatenated."""
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
    def of(cls, words: Sequence[str], matrix: Float[np.ndarray, "v d"]) -> VectorTable:
        """Vectors from words and an array."""
        if len(words) != len(matrix):
            raise DataError(
                f"The number of vectors must be {len(words)}, one for each word, got {len(matrix)}. Match them."
            )
        return cls(WordIndex.of(words), np.ascontiguousarray(matrix, np.float32))

    def save(self, path: str | PathLike[str], format: str | None = None) -> Path:
        """Write the vectors atomically and return the path.

        Args:
            path: the file.
            format: ``catena`` (``.safetensors``), ``word2vec`` (``.bin``), ``word2vec-text`` (``.txt``, ``.vec``) or
                ``glove``. By the file extension if omitted.
        """
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
                f"The format must be catena, word2vec, word2vec-text or glove, got {path.name!r}. Use the extension "
                f".safetensors, .bin or .txt, or set the format."
            )
        return path

    # --- looking up -------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.words)

    @property
    def d(self) -> int:
        """Dimension of the vectors."""
        return self.matrix.shape[1]

    def __contains__(self, word: object) -> bool:
        """Whether a word has its own row."""
        return word in self.words

    def __getitem__(self, word: str) -> Float32[np.ndarray, " d"]:
        """The vector of a word as a view. With character n-grams, words without a row get the mean of their n-grams."""
        at = int(self.words.find([word])[0])
        if at >= 0:
            return self.matrix[at]
        if self.subwords is None:
            self.words.number(word)  # raises with suggestions
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
            raise UnknownNameError(f"No vector for {word!r}, which has no character n-grams either. Use another word.")
        return np.asarray(self.subwords.rows[parts], np.float32).mean(0)

    def rows(self, words: Iterable[str]) -> Float32[np.ndarray, "n d"]:
        """The vectors of several words as rows."""
        return np.stack([self[word] for word in words])

    def tensor(self) -> torch.Tensor:
        """The matrix as a torch tensor that uses the same memory."""
        import torch

        return torch.from_numpy(self.matrix)

    @cached_property
    def norms(self) -> Float32[np.ndarray, " v"]:
        """The norm of each vector; 1 for zero vectors."""
        return lengths(self.matrix)

    # --- queries ----------------------------------------------------------------------------------------------

    def similarity(self, a: str, b: str) -> float:
        """The cosine of two words."""
        x, y = (self[word].astype(np.float64) for word in (a, b))
        return float(x @ y / max(float(np.linalg.norm(x) * np.linalg.norm(y)), 1e-30))

    def most_similar(self, word: str | Float[np.ndarray, " d"], k: int = 10, most: int | None = None) -> _ScoredWords:
        """The nearest words with their cosines, best first, without the word itself.

        Args:
            word: a word or a vector.
            k: number of neighbors.
            most: search only this many words, from the first (the most frequent ones if they are sorted).
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
        """The words that are to ``c`` as ``b`` is to ``a``: with man, king, woman it should be queen.

        The words a, b and c are not answers.

        Args:
            a: first word of the given pair.
            b: second word of the given pair.
            c: first word of the pair to complete.
            k: number of answers.
            method: ``add`` for the cosine with b - a + c (3CosAdd, Mikolov et al. 2013), ``multiply`` for the product
                of
                3CosMul (Levy & Goldberg 2014).
            most: search only this many words, from the first.
        """
        if method not in ("add", "multiply"):
            raise DataError(f"method must be 'add' or 'multiply', got {method!r}. Use 'add'.")
        question = np.array([[self.words.number(word) for word in (a, b, c)]])
        found = best_analogies(self.matrix, self.norms, question, k, method == "multiply", most)
        return self._named(*found)[0]

    def odd_one_out(self, words: Sequence[str]) -> str:
        """The word whose cosine with the mean of the unit vectors of all words is lowest."""
        if len(words) < 3:
            raise DataError(f"The number of words must be 3 or more, got {len(words)}. Add words.")
        rows = self.rows(words).astype(np.float64)
        units = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)
        return words[int(np.argmin(units @ units.mean(0)))]

    def _named(self, scores: Float32[np.ndarray, "n k"], places: Int[np.ndarray, "n k"]) -> list[_ScoredWords]:
        return [
            [(self.words[place], score) for score, place in zip(row, at, strict=True) if place >= 0]
            for row, at in zip(scores.tolist(), places.tolist(), strict=True)
        ]


class _AnyTraining(VectorTrainingConfig):
    """The section of training in the config of a run, which may have other settings."""

    model_config = VectorTrainingConfig.model_config | {"extra": "ignore"}


class _AnyVectors(VectorConfig):
    """The config of word vectors in the config of a run, which may have other sections."""

    model_config = VectorConfig.model_config | {"extra": "ignore"}

    training: _AnyTraining = _AnyTraining()
