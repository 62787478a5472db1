"""Sequence to sequence: a source is read as a whole, and a target is predicted from left to right."""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports

if TYPE_CHECKING:
    from catena.seq2seq.base import EncoderDecoder as EncoderDecoder
    from catena.seq2seq.base import Source as Source
    from catena.seq2seq.build import build_encoder_decoder as build_encoder_decoder
    from catena.seq2seq.caption import CaptionModel as CaptionModel
    from catena.seq2seq.caption import PictureSource as PictureSource
    from catena.seq2seq.checklist import ChecklistModel as ChecklistModel
    from catena.seq2seq.convolutional import ConvolutionalSeq2Seq as ConvolutionalSeq2Seq
    from catena.seq2seq.copy import CopyNet as CopyNet
    from catena.seq2seq.pointer import PointerNetwork as PointerNetwork
    from catena.seq2seq.recurrent import RecurrentEncoderDecoder as RecurrentEncoderDecoder
    from catena.seq2seq.transformer import TransformerSeq2Seq as TransformerSeq2Seq

__all__ = [
    "CaptionModel",
    "ChecklistModel",
    "ConvolutionalSeq2Seq",
    "CopyNet",
    "EncoderDecoder",
    "PictureSource",
    "PointerNetwork",
    "RecurrentEncoderDecoder",
    "Source",
    "TransformerSeq2Seq",
    "build_encoder_decoder",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "CaptionModel": ".caption",
        "ChecklistModel": ".checklist",
        "ConvolutionalSeq2Seq": ".convolutional",
        "CopyNet": ".copy",
        "EncoderDecoder": ".base",
        "PictureSource": ".caption",
        "PointerNetwork": ".pointer",
        "RecurrentEncoderDecoder": ".recurrent",
        "Source": ".base",
        "TransformerSeq2Seq": ".transformer",
        "build_encoder_decoder": ".build",
    },
)
