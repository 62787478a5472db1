"""What turns a sequence of vectors into vectors."""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports

if TYPE_CHECKING:
    from catena.encoders.base import Encoder as Encoder
    from catena.encoders.build import build_encoder as build_encoder
    from catena.encoders.build import build_pooling as build_pooling
    from catena.encoders.causal import CausalEncoder as CausalEncoder
    from catena.encoders.convolution import Convolution as Convolution
    from catena.encoders.dilated import Dilated as Dilated
    from catena.encoders.highway import Highway as Highway
    from catena.encoders.recurrent import Recurrent as Recurrent
    from catena.encoders.text_convolution import TextConvolution as TextConvolution
    from catena.encoders.transformer import TransformerEncoder as TransformerEncoder
    from catena.encoders.tree_lstm import ChildSumTreeLSTM as ChildSumTreeLSTM
    from catena.encoders.tree_lstm import NaryTreeLSTM as NaryTreeLSTM
    from catena.encoders.tree_recursive import MatrixVectorNetwork as MatrixVectorNetwork
    from catena.encoders.tree_recursive import RecursiveNetwork as RecursiveNetwork
    from catena.encoders.tree_recursive import TensorNetwork as TensorNetwork

__all__ = [
    "CausalEncoder",
    "ChildSumTreeLSTM",
    "Convolution",
    "Dilated",
    "Encoder",
    "Highway",
    "MatrixVectorNetwork",
    "NaryTreeLSTM",
    "Recurrent",
    "RecursiveNetwork",
    "TensorNetwork",
    "TextConvolution",
    "TransformerEncoder",
    "build_encoder",
    "build_pooling",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "CausalEncoder": ".causal",
        "ChildSumTreeLSTM": ".tree_lstm",
        "Convolution": ".convolution",
        "Dilated": ".dilated",
        "Encoder": ".base",
        "Highway": ".highway",
        "MatrixVectorNetwork": ".tree_recursive",
        "NaryTreeLSTM": ".tree_lstm",
        "Recurrent": ".recurrent",
        "RecursiveNetwork": ".tree_recursive",
        "TensorNetwork": ".tree_recursive",
        "TextConvolution": ".text_convolution",
        "TransformerEncoder": ".transformer",
        "build_encoder": ".build",
        "build_pooling": ".build",
    },
)
