"""Texture synthesis and style transfer by feature maps of a network, with trained or with random weights."""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports

if TYPE_CHECKING:
    from catena.niche.style.losses import content_loss as content_loss
    from catena.niche.style.losses import gram_loss as gram_loss
    from catena.niche.style.losses import gram_matrix as gram_matrix
    from catena.niche.style.losses import relative_gram_loss as relative_gram_loss
    from catena.niche.style.losses import total_variation as total_variation
    from catena.niche.style.objective import StepLosses as StepLosses
    from catena.niche.style.random_filters import RandomFilters as RandomFilters
    from catena.niche.style.synthesis import SynthesisProgress as SynthesisProgress
    from catena.niche.style.synthesis import SynthesisResult as SynthesisResult
    from catena.niche.style.synthesis import synthesize_texture as synthesize_texture
    from catena.niche.style.synthesis import transfer_style as transfer_style

__all__ = [
    "RandomFilters",
    "StepLosses",
    "SynthesisProgress",
    "SynthesisResult",
    "content_loss",
    "gram_loss",
    "gram_matrix",
    "relative_gram_loss",
    "synthesize_texture",
    "total_variation",
    "transfer_style",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "SynthesisProgress": ".synthesis",
        "RandomFilters": ".random_filters",
        "StepLosses": ".objective",
        "SynthesisResult": ".synthesis",
        "content_loss": ".losses",
        "gram_loss": ".losses",
        "gram_matrix": ".losses",
        "relative_gram_loss": ".losses",
        "synthesize_texture": ".synthesis",
        "total_variation": ".losses",
        "transfer_style": ".synthesis",
    },
)
