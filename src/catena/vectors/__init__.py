"""Word vectors: training, neighbors and analogies, evaluation, and maps."""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports

if TYPE_CHECKING:
    from catena.vectors.evaluate import evaluate_analogies as evaluate_analogies
    from catena.vectors.evaluate import evaluate_similarities as evaluate_similarities
    from catena.vectors.table import VectorTable as VectorTable
    from catena.vectors.train import infer_documents as infer_documents
    from catena.vectors.train import train_vectors as train_vectors

__all__ = [
    "VectorTable",
    "evaluate_analogies",
    "evaluate_similarities",
    "infer_documents",
    "train_vectors",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "VectorTable": ".table",
        "evaluate_analogies": ".evaluate",
        "evaluate_similarities": ".evaluate",
        "infer_documents": ".train",
        "train_vectors": ".train",
    },
)
