"""What turns ids, characters or positions into vectors."""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports

if TYPE_CHECKING:
    from catena.embeddings.characters import CharacterEmbedding as CharacterEmbedding
    from catena.embeddings.positions import LearnedPositions as LearnedPositions
    from catena.embeddings.positions import RotaryPositions as RotaryPositions
    from catena.embeddings.positions import SinusoidalPositions as SinusoidalPositions
    from catena.embeddings.table import EmbeddingTable as EmbeddingTable
    from catena.embeddings.table import MultichannelTable as MultichannelTable
    from catena.embeddings.table import PartlyFrozenTable as PartlyFrozenTable

__all__ = [
    "CharacterEmbedding",
    "EmbeddingTable",
    "LearnedPositions",
    "MultichannelTable",
    "PartlyFrozenTable",
    "RotaryPositions",
    "SinusoidalPositions",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "CharacterEmbedding": ".characters",
        "EmbeddingTable": ".table",
        "LearnedPositions": ".positions",
        "MultichannelTable": ".table",
        "PartlyFrozenTable": ".table",
        "RotaryPositions": ".positions",
        "SinusoidalPositions": ".positions",
    },
)
