"""Load single files of n-gram models, in Catena's format or ARPA, as predictors."""

from __future__ import annotations

from pathlib import Path

import torch

from catena.data.config import VocabularyConfig, WhitespaceTokenizerConfig
from catena.data.tokenize import build_tokenizer
from catena.lm.ngram.model import NgramModel
from catena.tasks.lm.config import LmConfig, NgramConfig
from catena.tasks.lm.encoding import LmEncoding
from catena.tasks.lm.predictor import LmPredictor


def open_file(path: Path) -> LmPredictor:
    """The predictor of an ARPA file or a file written by ``NgramModel.save``. It splits text at whitespace."""
    model, tokens = NgramModel.load(path), WhitespaceTokenizerConfig(lowercase=False)
    config = LmConfig(tokenizer=tokens, vocabulary=VocabularyConfig(min_count=1), model=NgramConfig(order=model.order))
    encoding = LmEncoding(build_tokenizer(tokens), model.vocabulary, config.data.unit)
    return LmPredictor(config, encoding, model, torch.device("cpu"))
