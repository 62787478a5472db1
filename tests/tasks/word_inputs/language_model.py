"""An untrained language model over words, from which taggers and parsers can start."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import torch

from catena import config as configs
from catena.data.special_tokens import BEGIN_SYMBOL
from catena.data.tokenize import build_tokenizer
from catena.data.vocabulary import Vocabulary
from catena.lm.base import SPECIALS
from catena.lm.neural_build import build_neural
from catena.tasks.lm.config import LmConfig
from catena.tasks.lm.data import LmEncoding
from catena.tasks.pretrained import Pretrained


def language_model(text: str, **sections: Any) -> Pretrained:
    """A language model over the words of a text, with random weights."""
    values = {
        "tokenizer": {"kind": "whitespace"},
        "model": {"kind": "lstm", "encoder": {"d": 5, "n_layers": 2}, "embedding": {"d": 4}},
        **sections,
    }
    config = configs.parse(LmConfig, values)
    vocabulary = Vocabulary.from_counts(Counter(text.split()), specials=SPECIALS)
    torch.manual_seed(3)
    model: Any = config.model
    network = build_neural(model, vocabulary, vocabulary.counts, begin=BEGIN_SYMBOL)
    encoding = LmEncoding(build_tokenizer(config.tokenizer), vocabulary, "line")
    return Pretrained(Path("lm"), config, encoding, network.state_dict())
