"""String-to-string models: joint n-grams of aligned units, contextual edits, and encoder-decoders."""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports

if TYPE_CHECKING:
    from catena.transduction.base import StringTransducer as StringTransducer
    from catena.transduction.edit import EditModel as EditModel
    from catena.transduction.joint import JointModel as JointModel

__all__ = [
    "EditModel",
    "JointModel",
    "StringTransducer",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "EditModel": ".edit",
        "JointModel": ".joint",
        "StringTransducer": ".base",
    },
)
