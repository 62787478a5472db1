"""Small reading models and data for the tests of this folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from catena.data.examples import SourceLocation
from catena.data.readers.questions import QuestionExample, ReferenceAnswer
from catena.embeddings.config import CharacterConvolutionConfig, EmbeddingConfig
from catena.encoders.config import RecurrentConfig
from catena.tasks.read.build import build_bidaf
from catena.tasks.read.config import BiDAFConfig
from catena.tasks.read.encoding import ReadingEncoding
from catena.tasks.read.model import BiDAF

TEXTS = ("Ada met Zoë in Łódź .", "The 1990s cost $20 , they say", "a b c d e f g", "👩🏽‍🚀 e\u0301t𝔸 x")


def config(d: int = 3, **changes: Any) -> BiDAFConfig:
    lstm = {"d": d, "init": "orthogonal"}
    values = {
        "words": EmbeddingConfig(d=4),
        "characters": CharacterConvolutionConfig(d=3, windows=(5,), filters=4, max_length=8),
        "contextual": RecurrentConfig(**lstm),
        "modeling": RecurrentConfig(**lstm, n_layers=2),
        "end": RecurrentConfig(**lstm),
        "dropout": 0.0,
    }
    return BiDAFConfig(**{**values, **changes})


def encoding(texts: Sequence[str] = TEXTS, **options: Any) -> ReadingEncoding:
    return ReadingEncoding.count(texts, max_characters=8, **options)


def model(own: ReadingEncoding, d: int = 3, vectors: torch.Tensor | None = None, **changes: Any) -> BiDAF:
    return build_bidaf(config(d, **changes), own.words, len(own.characters), vectors)


def example(context: str, question: str, *answers: str, title: str = "") -> QuestionExample:
    found = tuple(ReferenceAnswer(text, context.index(text)) for text in answers)
    return QuestionExample(context, question, found, f"{context}/{question}", SourceLocation("x", 1), title)
