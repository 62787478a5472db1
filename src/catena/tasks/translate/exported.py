"""Translators in the form of other programs, with the tokenizers and vocabularies that belong to them."""

from __future__ import annotations

from pathlib import Path

from catena.data.vocabulary import UNK_SYMBOL
from catena.errors import ConfigError
from catena.kernels.int8_weight import Int8Weight
from catena.seq2seq.base import EncoderDecoder
from catena.seq2seq.recurrent import RecurrentEncoderDecoder
from catena.seq2seq.transformer import TransformerSeq2Seq
from catena.tasks.translate.encoding import PairEncoding


def export_model(
    to: str, model: EncoderDecoder, encoding: PairEncoding, folder: Path, quantization: str | None = None
) -> None:
    """Write a model as ``ctranslate2`` or ``onnx`` into a folder, which must not be there.

    What is given to either is the tokens of a source and behind them the mark of the end.
    """
    if any(isinstance(weight, Int8Weight) for weight in model.parameters()):
        raise ConfigError("this model cannot be exported: its weights are held in 8 bits: load it without quantization")
    if to == "ctranslate2":
        from catena.export.ctranslate2 import SpecialTokenNames, to_ctranslate2

        if not isinstance(model, TransformerSeq2Seq):
            cure = "export it --to onnx" if isinstance(model, RecurrentEncoderDecoder) else "train a Transformer"
            raise ConfigError(f"CTranslate2 runs Transformers, and this model is of another kind: {cure}")
        source, target = encoding.source.vocabulary, encoding.target.vocabulary
        tokens = SpecialTokenNames(source.tokens(range(len(source))), target.tokens(range(len(target))), UNK_SYMBOL)
        to_ctranslate2(model, tokens, folder, quantization)
    elif to == "onnx":
        from catena.export.onnx import to_onnx

        if quantization is not None:
            raise ConfigError(f"quantization = {quantization!r} is for CTranslate2: leave it out, or export --to it")
        to_onnx(model, folder)
    else:
        raise ConfigError(f"models are exported to ctranslate2 or onnx, and not to {to!r}")
    encoding.save(folder)
