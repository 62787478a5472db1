"""Files of n-gram models, our own and those of other programs (ARPA), opened as models of the task."""

from __future__ import annotations

from pathlib import Path

import torch

from catena.data.settings import VocabularySettings, WhitespaceTokens
from catena.data.tokenise import build_tokeniser
from catena.lm.ngram.model import NgramModel
from catena.tasks.lm.encoding import LmEncoding
from catena.tasks.lm.predictor import LmPredictor
from catena.tasks.lm.settings import LmConfig, NgramSettings


def open_file(path: Path) -> LmPredictor:
    """The model of an ARPA file, or of a file that ``NgramModel.save`` wrote. Its tokens stand between blanks."""
    model, tokens = NgramModel.load(path), WhitespaceTokens(lowercase=False)
    config = LmConfig(
        tokenizer=tokens, vocabulary=VocabularySettings(min_count=1), model=NgramSettings(order=model.order)
    )
    encoding = LmEncoding(build_tokeniser(tokens), model.vocabulary, config.data.unit)
    return LmPredictor(config, encoding, model, torch.device("cpu"))
