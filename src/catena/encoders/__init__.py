"""Networks that turn sequences, trees, pictures and sounds into vectors."""

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
    from catena.encoders.image_base import ImageEncoder as ImageEncoder
    from catena.encoders.image_inception import GoogLeNet as GoogLeNet
    from catena.encoders.image_plain import VGG as VGG
    from catena.encoders.image_plain import AlexNet as AlexNet
    from catena.encoders.image_residual import ResNet as ResNet
    from catena.encoders.images import ImageNetwork as ImageNetwork
    from catena.encoders.images import build_image_encoder as build_image_encoder
    from catena.encoders.log_mel import LogMel as LogMel
    from catena.encoders.pooling import AttentionPooling as AttentionPooling
    from catena.encoders.pooling import EndsPooling as EndsPooling
    from catena.encoders.pooling import FirstLastPooling as FirstLastPooling
    from catena.encoders.pooling import KMaxPooling as KMaxPooling
    from catena.encoders.pooling import LastPooling as LastPooling
    from catena.encoders.pooling import MaxPooling as MaxPooling
    from catena.encoders.pooling import MeanPooling as MeanPooling
    from catena.encoders.pooling import MinPooling as MinPooling
    from catena.encoders.pooling import Pooling as Pooling
    from catena.encoders.recurrent import Recurrent as Recurrent
    from catena.encoders.sound import SoundNetwork as SoundNetwork
    from catena.encoders.sound import build_sound_network as build_sound_network
    from catena.encoders.text_convolution import TextConvolution as TextConvolution
    from catena.encoders.transformer import TransformerEncoder as TransformerEncoder
    from catena.encoders.tree_lstm import ChildSumTreeLSTM as ChildSumTreeLSTM
    from catena.encoders.tree_lstm import NaryTreeLSTM as NaryTreeLSTM
    from catena.encoders.tree_recursive import MatrixVectorNetwork as MatrixVectorNetwork
    from catena.encoders.tree_recursive import RecursiveNetwork as RecursiveNetwork
    from catena.encoders.tree_recursive import TensorNetwork as TensorNetwork

__all__ = [
    "VGG",
    "AlexNet",
    "AttentionPooling",
    "CausalEncoder",
    "ChildSumTreeLSTM",
    "Convolution",
    "Dilated",
    "Encoder",
    "EndsPooling",
    "FirstLastPooling",
    "GoogLeNet",
    "Highway",
    "ImageEncoder",
    "ImageNetwork",
    "KMaxPooling",
    "LastPooling",
    "LogMel",
    "MatrixVectorNetwork",
    "MaxPooling",
    "MeanPooling",
    "MinPooling",
    "NaryTreeLSTM",
    "Pooling",
    "Recurrent",
    "RecursiveNetwork",
    "ResNet",
    "SoundNetwork",
    "TensorNetwork",
    "TextConvolution",
    "TransformerEncoder",
    "build_encoder",
    "build_image_encoder",
    "build_pooling",
    "build_sound_network",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AlexNet": ".image_plain",
        "AttentionPooling": ".pooling",
        "CausalEncoder": ".causal",
        "ChildSumTreeLSTM": ".tree_lstm",
        "Convolution": ".convolution",
        "Dilated": ".dilated",
        "Encoder": ".base",
        "EndsPooling": ".pooling",
        "FirstLastPooling": ".pooling",
        "GoogLeNet": ".image_inception",
        "Highway": ".highway",
        "ImageEncoder": ".image_base",
        "ImageNetwork": ".images",
        "KMaxPooling": ".pooling",
        "LastPooling": ".pooling",
        "LogMel": ".log_mel",
        "MatrixVectorNetwork": ".tree_recursive",
        "MaxPooling": ".pooling",
        "MeanPooling": ".pooling",
        "MinPooling": ".pooling",
        "NaryTreeLSTM": ".tree_lstm",
        "Pooling": ".pooling",
        "Recurrent": ".recurrent",
        "RecursiveNetwork": ".tree_recursive",
        "ResNet": ".image_residual",
        "SoundNetwork": ".sound",
        "TensorNetwork": ".tree_recursive",
        "TextConvolution": ".text_convolution",
        "TransformerEncoder": ".transformer",
        "VGG": ".image_plain",
        "build_encoder": ".build",
        "build_image_encoder": ".images",
        "build_pooling": ".build",
        "build_sound_network": ".sound",
    },
)
