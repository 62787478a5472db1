"""n-gram language models.

    model = NgramModel.train("wiki.train.tokens", order=5)
    model.perplexity("wiki.test.tokens")
    model.score(["the dog ran away"])

A model is a :class:`~catena.search.stepper.Stepper` whose states are integers, so every search works on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from catena.data.config import VocabularyConfig
from catena.data.special_tokens import BEGIN_SYMBOL, END_SYMBOL
from catena.data.vocabulary import UNK, Vocabulary
from catena.errors import DataError, ShapeError
from catena.kernels.common.ops import as_int64_array
from catena.lm.base import AutoregressiveLM
from catena.lm.ngram.arpa import is_arpa, read_arpa, write_arpa
from catena.lm.ngram.array_storage import MappedSpace
from catena.lm.ngram.binary import load_binary, save_binary
from catena.lm.ngram.counts import NgramCounts
from catena.lm.ngram.estimators import ESTIMATORS, EstimateFn, to_trie
from catena.lm.ngram.lexicon import Bytes, Lexicon
from catena.lm.ngram.packed import PackedNgrams
from catena.lm.ngram.pruning import count_cutoff_mask, pruned_by_entropy
from catena.lm.ngram.reading import ProgressFn, TextSource, join_lines, pieces
from catena.lm.ngram.trie import Floats, IntegerArray, LongArray, NgramInfo


@dataclass(frozen=True)
class TextScore:
    """The score of a text.

    ``tokens`` counts every token and the end of every sentence; ``unknown`` counts the unknown words among them.
    ``log_prob`` is a natural logarithm.
    """

    log_prob: float
    tokens: int
    sentences: int
    unknown: int

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log-probability of a token; inf if the text is impossible under the model."""
        if not self.tokens:
            raise DataError("The perplexity of a text without tokens is undefined. Pass at least one sentence.")
        mean = -self.log_prob / self.tokens
        return math.exp(mean) if mean < 700 else math.inf


class NgramModel(AutoregressiveLM[Tensor]):
    """An n-gram language model p(w | the last order - 1 words). States are ids of histories.

    Args:
        packed: the model over ids.
        vocabulary: the tokens of the ids, with the special tokens ``<s>`` and ``</s>``.
        about: how it was estimated.
    """

    def __init__(self, packed: PackedNgrams, vocabulary: Vocabulary, about: NgramInfo = NgramInfo()) -> None:  # noqa: B008
        if packed.v != len(vocabulary):
            raise DataError(
                f"vocabulary must have {packed.v} words, as many as the model, got {len(vocabulary)}. Pass the "
                "vocabulary that the model was trained with."
            )
        self.packed, self.about = packed, about
        self._vocabulary = vocabulary
        self.v, self.order = packed.v, packed.order
        self.begin, self.end = vocabulary.special(BEGIN_SYMBOL), vocabulary.special(END_SYMBOL)
        # The state after the start token.
        self._begun = packed.begin_state(self.begin)

    def __repr__(self) -> str:
        return f"NgramModel(order={self.order}, v={self.v}, estimator={self.about.estimator!r})"

    @property
    def vocabulary(self) -> Vocabulary:
        return self._vocabulary

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def normalized(self) -> bool:
        """Whether probabilities sum to one; False for stupid back-off."""
        return self.about.normalized

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings of the estimator, in full sentences."""
        return self.about.notes

    @cached_property
    def lexicon(self) -> Lexicon:
        return Lexicon(self._vocabulary)

    # --- construction ---------------------------------------------------------------------------------------------

    @classmethod
    def train(
        cls,
        text: TextSource | Sequence[Path],
        order: int = 3,
        estimator: str | EstimateFn = "modified-kneser-ney",
        prune: Sequence[int] = (),
        vocabulary: Vocabulary | VocabularyConfig | None = None,
        skip_blank: bool = False,
        memory: int | None = None,
        progress: ProgressFn | None = None,
    ) -> NgramModel:
        """Train a model on a tokenized text, one sentence per line, with tokens separated by whitespace.

        Args:
            text: a file; several files, as a list of paths; or the sentences themselves, as a list of strings.
            order: the length of the longest n-grams.
            estimator: a name in ``ESTIMATORS``, or such a function.
            prune: drop n-grams of length k that occur at most ``prune[k - 1]`` times; the last value applies to
                all longer ones: ``(0, 0, 1)`` drops trigrams and longer ones that occur once.
            vocabulary: the vocabulary, or how to choose it; all words by default. Other words, and the word ``<unk>``,
                count as the unknown word.
            skip_blank: skip lines without a token, which otherwise are empty sentences.
            memory: the approximate limit in bytes for additional memory of the process: n-grams are sorted in runs
                on disk, and the model is in mapped files. The vocabulary is always in memory,
                about 500 bytes per word.
            progress: called with a description of the current work and the fraction done.
        """
        from catena.lm.ngram.building import counted_text, counted_within

        if memory is None:
            counts, known = counted_text(text, order, vocabulary, skip_blank, progress)
            return cls._estimated(counts, known, estimator, prune, progress)
        space = MappedSpace(memory)
        with space.watched():
            counts, known = counted_within(text, order, vocabulary, skip_blank, memory, space, progress)
            return cls._estimated(counts, known, estimator, prune, progress)

    @classmethod
    def train_ids(
        cls,
        sentences: Iterable[Sequence[int] | NDArray[np.integer[Any]]],
        vocabulary: Vocabulary,
        order: int = 3,
        estimator: str | EstimateFn = "modified-kneser-ney",
        prune: Sequence[int] = (),
        memory: int | None = None,
        progress: ProgressFn | None = None,
    ) -> NgramModel:
        """Train a model on sentences of ids, without begin and end: characters, subwords or anything else.

        The other arguments are as for :meth:`train`.
        """
        from catena.lm.ngram.building import counted_ids, counted_ids_within

        if memory is None:
            counts = counted_ids(sentences, order, vocabulary, progress)
            return cls._estimated(counts, vocabulary, estimator, prune, progress)
        space = MappedSpace(memory)
        with space.watched():
            counts = counted_ids_within(sentences, order, vocabulary, memory, space, progress)
            return cls._estimated(counts, vocabulary, estimator, prune, progress)

    @classmethod
    def estimate(
        cls,
        counts: NgramCounts,
        vocabulary: Vocabulary,
        estimator: str | EstimateFn = "modified-kneser-ney",
        prune: Sequence[int] = (),
    ) -> NgramModel:
        """A model from counts."""
        function = ESTIMATORS[estimator] if isinstance(estimator, str) else estimator
        kept = count_cutoff_mask(counts, prune)
        found = function(counts, kept)
        about = NgramInfo(_name_of(estimator), found.normalized, found.notes)
        return cls(PackedNgrams.of(to_trie(counts, found, kept)), vocabulary, about)

    def pruned(self, threshold: float) -> NgramModel:
        """A smaller model without the n-grams whose removal raises perplexity by a fraction below ``threshold``."""
        trie = pruned_by_entropy(self.packed.trie(), threshold, self.begin)
        return NgramModel(PackedNgrams.of(trie), self._vocabulary, self.about)

    def save(self, path: Path | str) -> None:
        """Write one file, which :meth:`load` maps into memory."""
        save_binary(Path(path), self.packed, self._vocabulary, self.about)

    @classmethod
    def load(cls, path: Path | str, verify: bool = True) -> NgramModel:
        """Load a file from :meth:`save`, which is mapped, or an ARPA file, which may be compressed.

        ``verify`` compares the checksum of a saved file, which reads all of it once.
        """
        path = Path(path)
        if is_arpa(path):
            trie, vocabulary = read_arpa(path)
            return cls(PackedNgrams.of(trie), vocabulary, NgramInfo("arpa"))
        return cls(*load_binary(path, verify))

    def save_arpa(self, path: Path | str) -> None:
        """Write an ARPA file for other tools; compressed if its name ends in ``.gz``."""
        write_arpa(Path(path), self.packed.trie(), self._vocabulary)

    @classmethod
    def _estimated(
        cls,
        counts: NgramCounts,
        vocabulary: Vocabulary,
        estimator: str | EstimateFn,
        prune: Sequence[int],
        progress: ProgressFn | None,
    ) -> NgramModel:
        if progress:
            progress("estimating", 0.0)
        model = cls.estimate(counts, vocabulary, estimator, prune)
        if progress:
            progress("estimating", 1.0)
        return model

    # --- as a stepper ----------------------------------------------------------------------------------------------

    def start(self, n: int) -> Int[Tensor, " n"]:
        return torch.full((n,), self._begun)

    def log_probs(self, state: Int[Tensor, " n"]) -> Float[Tensor, "n v"]:
        return torch.from_numpy(self.packed.spread(as_int64_array(state))).to(state.device)

    def id_log_probs(
        self, state: Int[Tensor, " n"], rows: Int[Tensor, " m"], ids: Int[Tensor, " m"]
    ) -> Float[Tensor, " m"]:
        log_probs = self.packed.step(as_int64_array(state[rows]), as_int64_array(ids))[1]
        return torch.from_numpy(log_probs).to(state.device)

    def advance(self, state: Int[Tensor, " n"], ids: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        return torch.from_numpy(self.packed.step(as_int64_array(state), as_int64_array(ids))[0]).to(state.device)

    def select(self, state: Int[Tensor, " n"], rows: Int[Tensor, " m"]) -> Int[Tensor, " m"]:
        return state[rows]

    def join(self, states: Sequence[Int[Tensor, " _"]]) -> Int[Tensor, " n"]:
        return torch.cat(list(states))

    def token_log_probs(self, ids: Int[Tensor, "n t"], lengths: Int[Tensor, " n"]) -> Float[Tensor, "n t"]:
        self._check_ids(ids)
        _check_lengths(ids, lengths)
        real = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        flat = as_int64_array(ids[real]).astype(np.int32)
        found = torch.zeros(ids.shape, device=ids.device)
        found[real] = torch.from_numpy(self.packed.walk(flat, np.cumsum(as_int64_array(lengths)), self._begun)).to(
            ids.device
        )
        return found

    def _check_ids(self, ids: Tensor) -> None:
        if ids.numel() and not (int(ids.min()) >= 0 and int(ids.max()) < self.v):
            raise DataError(
                f"ids must be from 0 to {self.v - 1}, got {int(ids.min())} to {int(ids.max())}. Use the model's ids."
            )

    # --- texts --------------------------------------------------------------------------------------------------------

    def score(self, sentences: Sequence[str]) -> list[float]:
        """The log-probability of each sentence, including its end. Tokens are separated by whitespace."""
        if type(sentences) is list and len(sentences) == 1 and type(sentences[0]) is str:
            try:
                text = sentences[0].encode()
            except UnicodeEncodeError:  # a lone surrogate
                text = sentences[0].encode("utf-8", "surrogatepass")
            return [self._score_text(text)]
        ids, ends, log_probs = self._walk(join_lines(sentences))
        starts = np.concatenate(([0], ends[:-1])) if len(ends) else ends
        return np.add.reduceat(log_probs, starts, dtype=np.float64).tolist() if len(ids) else []

    @cached_property
    def _score_text(self) -> Callable[[bytes], float]:
        """The log-probability of one sentence of UTF-8."""
        return self.packed.text_scorer(*self.lexicon.table, UNK, self.begin, self.end)

    def token_scores(self, sentence: str) -> list[tuple[str, float]]:
        """Every token of a sentence, and its end, with its log-probability; the unknown ones as ``<unk>``."""
        ids, _, log_probs = self._walk(join_lines([sentence]))
        return list(zip(self._vocabulary.tokens(ids.tolist()), log_probs.tolist(), strict=True))

    def evaluate(self, text: TextSource | Sequence[Path], skip_blank: bool = False) -> TextScore:
        """The score of a text: a file, a list of paths, or a list of sentences."""
        from catena.lm.ngram.building import as_pieces

        log_prob, tokens, sentences, unknown = 0.0, 0, 0, 0
        for piece in as_pieces(text, pieces):
            ids, ends, found = self._walk(piece, skip_blank)
            log_prob += float(found.sum(dtype=np.float64))
            tokens, sentences = tokens + len(ids), sentences + len(ends)
            unknown += int((ids == UNK).sum())
        return TextScore(log_prob, tokens, sentences, unknown)

    def perplexity(self, text: TextSource | Sequence[Path], skip_blank: bool = False) -> float:
        """exp of the mean negative log-probability of tokens and sentence ends, unknown words included."""
        return self.evaluate(text, skip_blank).perplexity

    def _walk(self, text: Bytes, skip_blank: bool = False) -> tuple[IntegerArray, LongArray, Floats]:
        """Ids without start tokens, the ends of sentences, and log-probabilities."""
        ids = self.lexicon.sentences(text, -1, self.end, skip_blank)
        ends = np.flatnonzero(ids == self.end) + 1
        return ids, ends, self.packed.walk(ids, ends, self._begun)

    def next_words(self, prefix: str = "", k: int = 10) -> list[tuple[str, float]]:
        """The k most probable words after a sentence prefix with their log-probabilities; the end is ``</s>``."""
        ids = self.lexicon.sentences(join_lines([prefix]), -1, self.end)[:-1].astype(np.int64)
        state = self.extend(self.start(1), torch.from_numpy(ids)[None], torch.tensor([len(ids)]))
        values, words = self.log_probs(state)[0].topk(min(k, self.v))
        listed = zip(self._vocabulary.tokens(words.tolist()), values.tolist(), strict=True)
        return [(word, value) for word, value in listed if value > -math.inf]


def _name_of(estimator: str | EstimateFn) -> str:
    """The name of an estimator, also of a ``functools.partial``."""
    if isinstance(estimator, str):
        return estimator
    plain = estimator.func if isinstance(estimator, partial) else estimator
    own = getattr(plain, "__name__", type(plain).__name__)
    return next((name for name, known in ESTIMATORS.items() if known is plain), own)


def _check_lengths(ids: Tensor, lengths: Tensor) -> None:
    for row in ((lengths < 0) | (lengths > ids.shape[1])).nonzero()[:1, 0].tolist():
        raise ShapeError(
            f"lengths must be from 0 to {ids.shape[1]}, the width of ids, got {lengths[row]} in row {row}. Fix it."
        )
