"""torch's fused attention, without the one of its backends whose gradients are wrong.

On recent GPUs torch prefers cuDNN's kernel in half precision. With a mask its backward pass returns wrong gradients
(seen with torch 2.11 on an H200: a cosine of -0.1 to the correct ones in a padded encoder; PyTorch issue 196678
reports torch 2.13), so that training improves for a while and then diverges. It also plans again for each shape, which
makes it slower if lengths vary.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

EXACT_BACKENDS = {
    SDPBackend.FLASH_ATTENTION: torch.backends.cuda.flash_sdp_enabled,
    SDPBackend.EFFICIENT_ATTENTION: torch.backends.cuda.mem_efficient_sdp_enabled,
    SDPBackend.MATH: torch.backends.cuda.math_sdp_enabled,
}
"""The backends with correct gradients; the value says whether the caller has left it enabled."""


def fused_attention(
    q: Float[Tensor, "b h t d"],
    k: Float[Tensor, "b h s d"],
    v: Float[Tensor, "b h s d_v"],
    mask: Bool[Tensor, "#b #h #t #s"] | None = None,
    dropout: float = 0.0,
    causal: bool = False,
) -> Float[Tensor, "b h t d_v"]:
    """softmax(q kᵀ / √d) v, where every query must attend to at least one key."""
    if q.device.type != "cuda" or not torch.is_grad_enabled():
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal)
    with sdpa_kernel([backend for backend, is_enabled in EXACT_BACKENDS.items() if is_enabled()]):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal)
