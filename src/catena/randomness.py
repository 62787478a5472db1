"""One seed, many named generators.

A run has one seed. Each thing that draws (the order of batches, the weights, a split of the data) asks for a
generator by its own name, so that adding a draw in one place never changes the draws in another.

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
    """A number from 0 to below 1 that depends on a text alone, whatever the seed: which part of the data it is in."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


@dataclass(frozen=True)
class Randomness:
    """The source of all generators of a run. The same seed, name and index give the same draws everywhere."""

    seed: int = 0

    def number(self, name: str, index: int = 0) -> int:
        """A 63-bit number that depends on the seed, the name and the index alone."""
        text = f"{self.seed}/{name}/{index}".encode()
        return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 1

    def numpy(self, name: str, index: int = 0) -> np.random.Generator:
        """A numpy generator for this name; ``index`` tells epochs, folds or workers apart."""
        import numpy as np

        return np.random.default_rng(self.number(name, index))

    def torch(self, name: str, index: int = 0) -> torch.Generator:
        """A torch generator on the CPU for this name."""
        import torch

        return torch.Generator().manual_seed(self.number(name, index))

    def seed_torch(self, name: str, index: int = 0) -> None:
        """Seed torch's global generators, which dropout draws from, on every device."""
        import torch

        torch.manual_seed(self.number(name, index))
