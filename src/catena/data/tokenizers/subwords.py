"""Trained byte-level subwords: byte-pair encoding and unigram pieces, through the ``tokenizers`` library.

Both start from the 256 bytes, so no token is unknown and ``join`` restores the text. Tokens are in the library's
notation, one printable character per byte: ``Ġthe`` is " the". The trained tokenizer is stored in the library's own
``tokenizer.json`` and needs no network.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from catena.data.config import BpeTokenizerConfig, UnigramTokenizerConfig
from catena.data.tokenize import Tokenizer, text_rule
from catena.errors import CheckpointError, DataError

_TOKENIZER_FILE = "tokenizer.json"
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNUSED_STEP = 1e-4
"""The library spaces the scores of leftover bytes by this amount, in no fixed order."""
_SCORE_DIGITS = 3
"""Scores (nats) are rounded to this many digits, because sums in another order differ in the last ones."""


class SubwordTokenizer(Tokenizer):
    """Learned pieces of words."""

    def __init__(self, settings: BpeTokenizerConfig | UnigramTokenizerConfig, model: tokenizers.Tokenizer) -> None:
        super().__init__(settings)
        self._model = model

    @cached_property
    def _names(self) -> list[str]:
        """The name of each id, with gaps where the library has no token."""
        vocabulary = self._model.get_vocab()
        names = [""] * (1 + max(vocabulary.values(), default=-1))
        for name, i in vocabulary.items():
            names[i] = name
        return names

    @property
    def symbols(self) -> tuple[str, ...]:
        vocabulary = self._model.get_vocab()
        return tuple(sorted(vocabulary, key=vocabulary.__getitem__))

    def tokens(self, text: str) -> list[str]:
        # The fast variant computes neither offsets nor the names of tokens.
        (found,) = self._model.encode_batch_fast([_encodable(self._text(text))], add_special_tokens=False)
        return [*map(self._names.__getitem__, found.ids)]

    def join(self, tokens: Sequence[str]) -> str:
        return self._model.decoder.decode(list(tokens))

    def shown(self, token: str) -> str:
        """The characters of a piece, with ▁ for blanks.

        A piece of partial or line-ending characters is unchanged, and so are tokens that are not pieces, such as end
        tokens.
        """
        if self._model.token_to_id(token) is None:
            return token
        text = self.join([token]).replace(" ", "▁")
        return text if text.isprintable() and "\N{REPLACEMENT CHARACTER}" not in text else token

    def save(self, folder: Path) -> None:
        super().save(folder)
        (folder / _TOKENIZER_FILE).write_text(self._model.to_str(pretty=True), encoding="utf-8")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.settings, self._model)


def train_bpe(settings: BpeTokenizerConfig, texts: Iterable[str]) -> SubwordTokenizer:
    """Learn merges. Ties are broken by the pair that was learned first, so the result is deterministic."""
    trainer = trainers.BpeTrainer(
        vocab_size=settings.size,
        min_frequency=settings.min_count,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    return SubwordTokenizer(settings, _trained(models.BPE(), trainer, settings, texts))


def train_unigram(settings: UnigramTokenizerConfig, texts: Iterable[str]) -> SubwordTokenizer:
    """Learn pieces and their log-probabilities, in a deterministic order."""
    trainer = trainers.UnigramTrainer(
        vocab_size=settings.size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[],
        show_progress=False,
    )
    model = _trained(models.Unigram(), trainer, settings, texts)
    learned = json.loads(model.to_str())["model"]["vocab"]
    model.model = models.Unigram(in_one_order([(piece, score) for piece, score in learned]))
    return SubwordTokenizer(settings, model)


def in_one_order(pieces: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """The same pieces without the effects of the library's hash tables, which differ from run to run.

    Bytes left over by the training have scores in a band above the lowest score: all get the lowest. That changes no
    segmentation, because a byte does not compete with other bytes.
    """
    lowest = min(score for _, score in pieces)
    bytes_ = set(pre_tokenizers.ByteLevel.alphabet())
    top_of_band = lowest + _UNUSED_STEP * (len(bytes_) + 1)
    steady = [(piece, lowest if piece in bytes_ and score <= top_of_band else score) for piece, score in pieces]
    rounded = [(piece, round(score, _SCORE_DIGITS)) for piece, score in steady]
    return sorted(rounded, key=lambda pair: (-pair[1], pair[0]))


def load_subwords(settings: BpeTokenizerConfig | UnigramTokenizerConfig, folder: Path) -> SubwordTokenizer:
    """Load a tokenizer that :meth:`SubwordTokenizer.save` wrote."""
    path = folder / _TOKENIZER_FILE
    try:
        model = tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{folder} has no {_TOKENIZER_FILE}: the model is incomplete. Copy it again.") from None
    except Exception as error:  # the library raises bare Exception
        raise CheckpointError(f"Cannot read the tokenizer {path} ({error}). Copy the model again.") from None
    return SubwordTokenizer(settings, model)


def _trained(
    model: models.Model,
    trainer: trainers.Trainer,
    settings: BpeTokenizerConfig | UnigramTokenizerConfig,
    texts: Iterable[str],
) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(model)
    steps: list[pre_tokenizers.PreTokenizer] = [pre_tokenizers.ByteLevel(add_prefix_space=False)]
    if settings.digits == "split":
        steps.insert(0, pre_tokenizers.Digits(individual_digits=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.ByteLevel()
    change = text_rule(settings)
    prepared = (_encodable(change(text)) for text in texts)
    filled = (text for text in prepared if text)
    first = next(filled, None)
    if first is None:
        raise DataError(f"A {settings.kind!r} tokenizer needs texts for training, got none. Pass texts.")
    tokenizer.train_from_iterator(chain([first], filled), trainer)
    return tokenizer


def _encodable(text: str) -> str:
    """The text without lone surrogates, which the library rejects."""
    return text if text.isascii() else _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
