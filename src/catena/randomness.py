"""Named random generators that are derived from one seed.

A run has one seed. Every user of randomness (the order of batches, the weights, a split of the data) gets a generator
by its own name, so that a new use never changes the random numbers of the others.

    randomness = Randomness(seed=13)
    split = randomness.numpy("split")
    init = randomness.torch("weights")
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jaxtyping import Float, Int

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor


def hash_fraction(text: str) -> float:
    """A number in [0, 1) that depends only on ``text``, to assign it to a split regardless of the seed."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


@dataclass(frozen=True)
class Randomness:
    """Factory of all random generators of a run. The same seed, name and index give the same numbers on any machine.

    Args:
        seed: the seed of the run.
    """

    seed: int = 0

    def number(self, name: str, index: int = 0) -> int:
        """A 63-bit integer that depends only on the seed, the name and the index."""
        text = f"{self.seed}/{name}/{index}".encode()
        return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 1

    def numpy(self, name: str, index: int = 0) -> np.random.Generator:
        """A numpy generator for this name; ``index`` distinguishes epochs, folds or workers."""
        import numpy as np

        return np.random.default_rng(self.number(name, index))

    def torch(self, name: str, index: int = 0) -> torch.Generator:
        """A torch generator on the CPU for this name."""
        import torch

        return torch.Generator().manual_seed(self.number(name, index))

    def seed_torch(self, name: str, index: int = 0) -> None:
        """Seed torch's global generators on every device, which dropout uses."""
        import torch

        torch.manual_seed(self.number(name, index))

    def uniforms(self, name: str, index: int, rows: Int[Tensor, " b"], n: int) -> Float[Tensor, "b n"]:
        """``n`` numbers in [0, 1) for each row that depend only on the seed, the name, the index and the row.

        A row gets the same numbers in any batch, in any order and on any device, so that the augmentation of example
        ``row`` in epoch ``index`` is the same after a resume. SplitMix64 (Steele et al. 2014) in two rounds.

        Args:
            name: what the numbers are for.
            index: the epoch.
            rows: the indices of the examples.
            n: numbers for each row.
        """
        import torch

        columns = torch.arange(n, device=rows.device)
        mixed = _mix(_mix(rows * _GOLDEN + self.number(name, index))[:, None] + columns * _GOLDEN)
        return ((mixed >> 40) & 0xFFFFFF).to(torch.float32) / 2**24  # the 24 highest bits, exact in float32


_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_FIRST = 0xBF58476D1CE4E5B9 - 2**64
_SECOND = 0x94D049BB133111EB - 2**64


def _mix(z: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
    """The finalizer of SplitMix64; products of int64 wrap, and masks make the shifts logical."""
    z = (z ^ ((z >> 30) & 0x3_FFFF_FFFF)) * _FIRST
    z = (z ^ ((z >> 27) & 0x1F_FFFF_FFFF)) * _SECOND
    return z ^ ((z >> 31) & 0x1_FFFF_FFFF)


def counted_uniforms(seed: int, stream: int, start: int, n: int) -> np.ndarray:
    """Uniform numbers ``start`` … ``start + n - 1`` of a stream, in [0, 1), by a counter (Salmon et al. 2011).

    Number i depends only on the seed, the stream and i, so that a sequence may be continued, or computed in blocks or
    on several devices, with the same numbers.
    """
    import numpy as np

    whole, skipped = divmod(start, 4)  # the generator makes four numbers for each value of its counter
    bits = np.random.Philox(key=np.array([seed % 2**64, stream % 2**64], np.uint64), counter=whole)
    return np.random.Generator(bits).random(n + skipped)[skipped:]
