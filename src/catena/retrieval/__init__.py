"""Retrieval of texts that match a query, by common words and by vectors."""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports

if TYPE_CHECKING:
    from catena.retrieval.cluster import k_means as k_means
    from catena.retrieval.dual import DualEncoder as DualEncoder
    from catena.retrieval.terms import BM25 as BM25
    from catena.retrieval.terms import Tfidf as Tfidf

__all__ = [
    "BM25",
    "DualEncoder",
    "Tfidf",
    "k_means",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "BM25": ".terms",
        "DualEncoder": ".dual",
        "Tfidf": ".terms",
        "k_means": ".cluster",
    },
)
