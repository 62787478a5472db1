"""File formats, tokenizers, vocabularies, features and batches."""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports

if TYPE_CHECKING:
    from catena.data.audio import Audio as Audio
    from catena.data.audio import audio_blocks as audio_blocks
    from catena.data.audio import read_audio as read_audio
    from catena.data.audio import write_wav as write_wav
    from catena.data.batches import BatchPlan as BatchPlan
    from catena.data.detect import detect_format as detect_format
    from catena.data.examples import Columns as Columns
    from catena.data.examples import ConlluSentence as ConlluSentence
    from catena.data.examples import LabeledText as LabeledText
    from catena.data.examples import ParallelText as ParallelText
    from catena.data.examples import Tree as Tree
    from catena.data.inspection import inspect as inspect
    from catena.data.records import Record as Record
    from catena.data.records import read_examples as read_examples
    from catena.data.records import read_records as read_records
    from catena.data.roles import Role as Role
    from catena.data.splits import Splits as Splits
    from catena.data.tokenize import Tokenizer as Tokenizer
    from catena.data.tokenize import build_tokenizer as build_tokenizer
    from catena.data.vocabulary import Vocabulary as Vocabulary

__all__ = [
    "Audio",
    "BatchPlan",
    "Columns",
    "ConlluSentence",
    "LabeledText",
    "ParallelText",
    "Record",
    "Role",
    "Splits",
    "Tokenizer",
    "Tree",
    "Vocabulary",
    "audio_blocks",
    "build_tokenizer",
    "detect_format",
    "inspect",
    "read_audio",
    "read_examples",
    "read_records",
    "write_wav",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Audio": ".audio",
        "BatchPlan": ".batches",
        "Columns": ".examples",
        "ConlluSentence": ".examples",
        "LabeledText": ".examples",
        "ParallelText": ".examples",
        "Record": ".records",
        "Role": ".roles",
        "Splits": ".splits",
        "Tokenizer": ".tokenize",
        "Tree": ".examples",
        "Vocabulary": ".vocabulary",
        "audio_blocks": ".audio",
        "build_tokenizer": ".tokenize",
        "detect_format": ".detect",
        "inspect": ".inspection",
        "read_audio": ".audio",
        "read_examples": ".records",
        "read_records": ".records",
        "write_wav": ".audio",
    },
)
