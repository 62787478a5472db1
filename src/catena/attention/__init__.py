"""What turns vectors into weights over other vectors."""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports

if TYPE_CHECKING:
    from catena.attention.base import AttentionResult as AttentionResult
    from catena.attention.base import attend as attend
    from catena.attention.cache import KeyValueCache as KeyValueCache
    from catena.attention.cross import CrossAttention as CrossAttention
    from catena.attention.flow import AttentionFlow as AttentionFlow
    from catena.attention.hard import SampledHardAttention as SampledHardAttention
    from catena.attention.hard import StraightThroughAttention as StraightThroughAttention
    from catena.attention.local import LocalMonotonic as LocalMonotonic
    from catena.attention.local import LocalPredictive as LocalPredictive
    from catena.attention.masks import attention_mask as attention_mask
    from catena.attention.masks import causal_mask as causal_mask
    from catena.attention.masks import padding_mask as padding_mask
    from catena.attention.multihead import MultiHeadAttention as MultiHeadAttention
    from catena.attention.scores import AttentionScore as AttentionScore
    from catena.attention.scores import build_score as build_score
    from catena.attention.weighting import SoftAttention as SoftAttention

__all__ = [
    "AttentionFlow",
    "AttentionResult",
    "AttentionScore",
    "CrossAttention",
    "KeyValueCache",
    "LocalMonotonic",
    "LocalPredictive",
    "MultiHeadAttention",
    "SampledHardAttention",
    "SoftAttention",
    "StraightThroughAttention",
    "attend",
    "attention_mask",
    "build_score",
    "causal_mask",
    "padding_mask",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AttentionFlow": ".flow",
        "AttentionResult": ".base",
        "AttentionScore": ".scores",
        "CrossAttention": ".cross",
        "KeyValueCache": ".cache",
        "LocalMonotonic": ".local",
        "LocalPredictive": ".local",
        "MultiHeadAttention": ".multihead",
        "SampledHardAttention": ".hard",
        "SoftAttention": ".weighting",
        "StraightThroughAttention": ".hard",
        "attend": ".base",
        "attention_mask": ".masks",
        "build_score": ".scores",
        "causal_mask": ".masks",
        "padding_mask": ".masks",
    },
)
