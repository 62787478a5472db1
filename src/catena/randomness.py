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

if TYPE_CHECKING:
    import numpy as np
    import torch


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
