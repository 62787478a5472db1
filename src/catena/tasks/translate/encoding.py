"""Texts to ids and back on both sides, saved with the weights.

Every source ends with the end symbol, so that it is never empty and attention always has a position to attend to. For
copy models, a source token outside the target vocabulary has an extra id after it, numbered separately in each source.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from catena.data.batches import pad
from catena.data.special_tokens import BEGIN_SYMBOL, END_SYMBOL
from catena.data.tokenize import Tokenizer, load_tokenizer
from catena.data.vocabulary import PAD, UNK, Vocabulary
from catena.seq2seq.base import Source, VocabularyInfo
from catena.tasks.config import TOKENIZER, VOCABULARY

SPECIALS = (BEGIN_SYMBOL, END_SYMBOL)
"""The special tokens of both vocabularies other than padding and unknown."""


@dataclass(frozen=True, eq=False)
class TextEncoding:
    """The tokenizer and vocabulary of one side."""

    tokenizer: Tokenizer
    vocabulary: Vocabulary

    def ids(self, tokens: Iterable[str]) -> np.ndarray:
        """The ids of tokens, without an end symbol."""
        return np.array(self.vocabulary.ids(tokens), np.int64)

    @property
    def end(self) -> int:
        return self.vocabulary.special(END_SYMBOL)

    def shown(self, tokens: Iterable[str]) -> list[str]:
        """Tokens in readable form, for output."""
        return [self.tokenizer.shown(token) for token in tokens]

    def save(self, folder: Path, name: str) -> None:
        self.tokenizer.save(folder / f"{name}{TOKENIZER}")
        self.vocabulary.save(folder / f"{name}{VOCABULARY}")

    @classmethod
    def load(cls, folder: Path, name: str) -> TextEncoding:
        return cls(load_tokenizer(folder / f"{name}{TOKENIZER}"), Vocabulary.load(folder / f"{name}{VOCABULARY}"))


@dataclass(frozen=True, eq=False)
class TranslationSource:
    """An encoded source.

    Args:
        tokens: the tokens; the last one is the end symbol.
        ids: ids in the source vocabulary.
        copies: the id of each token in the target vocabulary of size ``v``, or an extra id from ``v`` on.
        new: the tokens of the extra ids.
    """

    tokens: tuple[str, ...]
    ids: np.ndarray
    copies: np.ndarray
    new: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)


class PairEncoding:
    """The encodings of sources and targets, which are one object if they are joint."""

    def __init__(self, source: TextEncoding, target: TextEncoding) -> None:
        self.source, self.target = source, target
        self.begin, self.end = target.vocabulary.special(BEGIN_SYMBOL), target.end

    @property
    def joint(self) -> bool:
        return self.source is self.target

    def code(self, tokens: Sequence[str]) -> TranslationSource:
        """The encoded source of tokens."""
        ids = np.append(self.source.ids(tokens), self.source.end)
        copies = np.append(self.target.ids(tokens), self.end)
        new: dict[str, int] = {}
        v = len(self.target.vocabulary)
        for i in np.flatnonzero(copies == UNK).tolist():
            copies[i] = v + new.setdefault(tokens[i], len(new))
        return TranslationSource((*tokens, END_SYMBOL), ids, copies, tuple(new))

    def target_ids(self, tokens: Sequence[str], new: Sequence[str] = ()) -> np.ndarray:
        """The ids of a target with its end symbol; unknown tokens in ``new`` have extra ids from ``v`` on."""
        ids = self.target.ids(tokens)
        if new:
            v, places = len(self.target.vocabulary), {name: k for k, name in enumerate(new)}
            for i in np.flatnonzero(ids == UNK).tolist():
                ids[i] = v + places[tokens[i]] if tokens[i] in places else UNK
        return np.append(ids, self.end)

    def tokens(self, ids: Iterable[int], new: Sequence[str] = ()) -> list[str]:
        """The target tokens of ids; extra ids have the tokens ``new``."""
        v = len(self.target.vocabulary)
        return [new[id - v] if id >= v else self.target.vocabulary.tokens([id])[0] for id in ids]

    def text(self, tokens: Sequence[str]) -> str:
        """The text of target tokens, on one line."""
        return " ".join(self.target.tokenizer.join(tokens).splitlines()).strip()

    def sides(self, counts: Sequence[int]) -> VocabularyInfo:
        """Vocabulary sizes and special ids for building a model. Byte-complete tokenizers never produce <unk>."""
        never = (PAD, UNK, self.begin) if self.target.tokenizer.symbols else (PAD, self.begin)
        return VocabularyInfo(
            n_source=len(self.source.vocabulary),
            counts=list(counts),
            begin=self.begin,
            end=self.end,
            forbidden=never,
            shared=self.joint,
        )

    def save(self, folder: Path) -> None:
        if self.joint:
            self.source.save(folder, "")
            return
        self.source.save(folder, "source-")
        self.target.save(folder, "target-")

    @classmethod
    def load(cls, folder: Path) -> PairEncoding:
        """Load an encoding written by :meth:`save`."""
        if (folder / VOCABULARY).exists():
            both = TextEncoding.load(folder, "")
            return cls(both, both)
        return cls(TextEncoding.load(folder, "source-"), TextEncoding.load(folder, "target-"))


def build_batch(sources: Sequence[TranslationSource], device: torch.device, copies: bool = False) -> Source:
    """Padded sources on a device, with copy ids if ``copies``."""
    ids, lengths = pad([coded.ids for coded in sources], PAD)
    if not copies:
        return Source(ids.to(device, non_blocking=True), lengths.to(device, non_blocking=True))
    places, _ = pad([coded.copies for coded in sources], PAD)
    n_new = max((len(coded.new) for coded in sources), default=0)
    return Source(ids, lengths, places, n_new).to(device)
