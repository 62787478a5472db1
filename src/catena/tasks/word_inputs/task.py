"""Neural tasks over the words of sentences: their start from a language model, and their batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from catena.tasks.base import C, E, O, P
from catena.tasks.neural import NeuralTask
from catena.tasks.pretrained import Pretrained
from catena.tasks.word_inputs.model import WordReader
from catena.tasks.word_inputs.pretrained import adopt_words, pretrained_layer_groups, start_reader


class WordTask(NeuralTask[C, E, P, O]):
    """A task whose batches have words and whose network has a :class:`~.model.SentenceEncoder`."""

    @classmethod
    def adopt(cls, config: C, pretrained: Pretrained) -> C:
        own: Any = config
        model = own.model.model_copy(update={"words": adopt_words(own.model.words, pretrained)})
        return config.model_copy(update={"model": model, "pretrained": str(pretrained.folder)})

    def load_pretrained(self, pretrained: Pretrained) -> None:
        start_reader(self._reader, pretrained)

    def frozen_layers(self) -> Sequence[Sequence[nn.Parameter]]:
        config: Any = self.config
        return pretrained_layer_groups(self._reader) if config.pretrained else []

    @property
    def _reader(self) -> WordReader:
        network: Any = self.network
        reader: WordReader = network.encoder.reader
        return reader

    def describe_batch(self, batch: Any) -> str:
        return f"{batch.words.size} sentences, longest {batch.words.longest} words"
