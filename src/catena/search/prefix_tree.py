"""Prefixes as a tree of back-pointers, so that common prefixes are stored once and never copied."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor


@dataclass
class PrefixTree:
    """Node (t, slot) of a row is id ``ids[t][row, slot]`` after node ``parents[t][row, slot]`` of step t - 1."""

    parents: list[Int[Tensor, "b k"]] = field(default_factory=list)
    ids: list[Int[Tensor, "b k"]] = field(default_factory=list)

    def grow(self, parents: Int[Tensor, "b k"], ids: Int[Tensor, "b k"]) -> None:
        self.parents.append(parents)
        self.ids.append(ids)

    def __len__(self) -> int:
        return len(self.ids)

    def read(self) -> Prefixes:
        """The tree as arrays, fetched from the device in one transfer."""
        widths = [ids.shape[1] for ids in self.ids]
        if not widths:
            return Prefixes([], [])
        both = torch.stack((torch.cat(self.parents, dim=1), torch.cat(self.ids, dim=1)))
        parents, ids = (x.split(widths, dim=1) for x in both.cpu())
        return Prefixes([x.numpy() for x in parents], [x.numpy() for x in ids])


@dataclass(frozen=True)
class Prefixes:
    """A tree to read from: the ids on the path from the root to a node."""

    parents: list[Int[np.ndarray, "b _"]]
    ids: list[Int[np.ndarray, "b _"]]

    def of(self, row: int, length: int, slot: int) -> tuple[int, ...]:
        """The last ``length`` ids on the path to a slot of a row."""
        found = []
        for t in range(length - 1, -1, -1):
            found.append(int(self.ids[t][row, slot]))
            slot = int(self.parents[t][row, slot])
        return tuple(reversed(found))


def flat_rows(parents: Int[Tensor, "b k"], width: int) -> Int[Tensor, " bk"]:
    """The row indices of the parents in a state with ``width`` slots for each row of the batch."""
    first = width * torch.arange(len(parents), device=parents.device)
    return (parents + first[:, None]).flatten()
