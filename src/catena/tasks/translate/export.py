"""Export translators to CTranslate2 and ONNX, with their tokenizers and vocabularies."""

from __future__ import annotations

from pathlib import Path

from catena.data.vocabulary import UNK_SYMBOL
from catena.errors import ConfigError
from catena.kernels.linear.int8_weight import Int8Weight
from catena.seq2seq.base import EncoderDecoder
from catena.seq2seq.recurrent import RecurrentEncoderDecoder
from catena.seq2seq.transformer import TransformerSeq2Seq
from catena.tasks.translate.encoding import PairEncoding


def export_model(
    to: str, model: EncoderDecoder, encoding: PairEncoding, folder: Path, quantization: str | None = None
) -> None:
    """Export a model to a new folder.

    The input of an exported model is the tokens of a source followed by the end symbol.

    Args:
        to: ``"ctranslate2"`` or ``"onnx"``.
        model: the model to export.
        encoding: its tokenizers and vocabularies.
        folder: the folder to create.
        quantization: quantization type of CTranslate2, such as ``"int8"``.
    """
    if any(isinstance(weight, Int8Weight) for weight in model.parameters()):
        raise ConfigError("A model with 8-bit weights cannot be exported. Load it without quantization.")
    if to == "ctranslate2":
        from catena.export.ctranslate2 import SpecialTokenNames, to_ctranslate2

        if not isinstance(model, TransformerSeq2Seq):
            cure = "Pass --to onnx" if isinstance(model, RecurrentEncoderDecoder) else "Train a Transformer"
            raise ConfigError(f"CTranslate2 supports only Transformers. {cure}.")
        source, target = encoding.source.vocabulary, encoding.target.vocabulary
        tokens = SpecialTokenNames(source.tokens(range(len(source))), target.tokens(range(len(target))), UNK_SYMBOL)
        to_ctranslate2(model, tokens, folder, quantization)
    elif to == "onnx":
        from catena.export.onnx import to_onnx

        if quantization is not None:
            raise ConfigError(
                f"--quantization applies only to ctranslate2, got {quantization!r}. Remove it, or pass --to "
                f"ctranslate2."
            )
        to_onnx(model, folder)
    else:
        raise ConfigError(f"--to must be ctranslate2 or onnx, got {to!r}. Pass one of the two.")
    encoding.save(folder)
