"""File formats, tokenizers, vocabularies, features and batches."""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports

if TYPE_CHECKING:
    from catena.data.batches import BatchPlan as BatchPlan
    from catena.data.detect import detect_format as detect_format
    from catena.data.detect import read_examples as read_examples
    from catena.data.examples import Columns as Columns
    from catena.data.examples import ConlluSentence as ConlluSentence
    from catena.data.examples import LabeledText as LabeledText
    from catena.data.examples import ParallelText as ParallelText
    from catena.data.examples import Tree as Tree
    from catena.data.inspection import inspect as inspect
    from catena.data.splits import Splits as Splits
    from catena.data.tokenize import build_tokenizer as build_tokenizer
    from catena.data.tokenizers.base import Tokenizer as Tokenizer
    from catena.data.vocabulary import Vocabulary as Vocabulary

__all__ = [
    "BatchPlan",
    "Columns",
    "ConlluSentence",
    "LabeledText",
    "ParallelText",
    "Splits",
    "Tokenizer",
    "Tree",
    "Vocabulary",
    "build_tokenizer",
    "detect_format",
    "inspect",
    "read_examples",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "BatchPlan": ".batches",
        "Columns": ".examples",
        "ConlluSentence": ".examples",
        "LabeledText": ".examples",
        "ParallelText": ".examples",
        "Splits": ".splits",
        "Tokenizer": ".tokenizers.base",
        "Tree": ".examples",
        "Vocabulary": ".vocabulary",
        "build_tokenizer": ".tokenize",
        "detect_format": ".detect",
        "inspect": ".inspection",
        "read_examples": ".detect",
    },
)
