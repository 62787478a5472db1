"""Files of n-gram models, our own and those of other programs (ARPA), opened as models of the task."""

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
    """The model of an ARPA file, or of a file that ``NgramModel.save`` wrote. Its tokens stand between blanks."""
    model, tokens = NgramModel.load(path), WhitespaceTokenizerConfig(lowercase=False)
    config = LmConfig(tokenizer=tokens, vocabulary=VocabularyConfig(min_count=1), model=NgramConfig(order=model.order))
    encoding = LmEncoding(build_tokenizer(tokens), model.vocabulary, config.data.unit)
    return LmPredictor(config, encoding, model, torch.device("cpu"))
