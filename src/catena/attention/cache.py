"""Key-value cache of a decoder, so that a step attends to earlier positions without computing their keys again.

A cache is a value: :meth:`KeyValueCache.grown` does not change the old one. Yet a step needs no copy: the buffer has
capacity after the last position, and the first cache that grows into it takes it; one that grows a second time, as in a
search that goes back, is copied first. The capacity doubles when it is full, so t steps cost O(t) copies of a position.

Sequences of different lengths end at the same slot: a shorter one begins later, and the slots before it are masked.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.attention.masks import causal_mask
from catena.kernels.common.scratch import scratch_array

LEAST_ROOM = 32
_FEW_ROWS = 64
"""Up to this many rows are copied one by one."""


class _Buffer:
    """The memory that several caches use. The first ``filled`` slots belong to some cache; the rest is free."""

    __slots__ = ("array", "data", "filled")

    def __init__(self, data: Float[Tensor, "l 2 b h s d"], filled: int) -> None:
        self.data, self.filled = data, filled
        self.array: np.ndarray | None = None


class KeyValueCache:
    """Keys and values of ``used`` positions in every layer.

    Args:
        buffer: ``buffer.data[l, 0]`` are the keys of layer ``l``, ``b h s d``, and ``buffer.data[l, 1]`` its values.
        used: the number of slots in use.
        begins: the first slot of each sequence that is not padding; None if all start at slot 0.
    """

    __slots__ = ("_buffer", "begins", "used")

    def __init__(self, buffer: _Buffer, used: int, begins: Int[Tensor, " b"] | None = None) -> None:
        self._buffer, self.used, self.begins = buffer, used, begins

    @classmethod
    def empty(
        cls, n_layers: int, b: int, n_heads: int, d_head: int, device: torch.device, dtype: torch.dtype
    ) -> KeyValueCache:
        """A cache of ``b`` empty sequences."""
        return cls(_Buffer(torch.empty(n_layers, 2, b, n_heads, 0, d_head, device=device, dtype=dtype), 0), 0)

    @property
    def start(self) -> int | Int[Tensor, " b"]:
        """The next position: one for all sequences, or one for each."""
        return self.used if self.begins is None else self.used - self.begins

    @property
    def dtype(self) -> torch.dtype:
        return self._buffer.data.dtype

    def grown(self, t: int) -> KeyValueCache:
        """A cache with ``t`` more slots at its end, which :meth:`write` fills layer by layer."""
        buffer, used = self._buffer, self.used
        if buffer.filled != used or buffer.data.shape[4] < used + t:
            buffer = self._moved(max(LEAST_ROOM, 2 * used, used + t))
        buffer.filled = used + t
        return KeyValueCache(buffer, used + t, self.begins)

    def _moved(self, size: int) -> _Buffer:
        old = self._buffer.data
        data = _fresh(old, old.shape[2], size)
        data[..., : self.used, :] = old[..., : self.used, :]
        return _Buffer(data, self.used)

    def write(self, layer: int, keys: Float[Tensor, "b h t d"], values: Float[Tensor, "b h t d"]) -> None:
        """Fill the last slots of a layer."""
        data, t = self._buffer.data[layer], keys.shape[2]
        data[0, :, :, self.used - t : self.used] = keys
        data[1, :, :, self.used - t : self.used] = values

    def last_slots(self) -> tuple[Tensor, ...]:
        """The last slot of every layer, ``2 b h d``, to be filled with keys and values in one assignment."""
        return self._buffer.data.select(4, self.used - 1).unbind(0)

    def every_layer(self) -> tuple[Tensor, ...]:
        """Keys of the first layer, its values, keys of the second, …, each ``b h s d``, without a copy."""
        return self._buffer.data.narrow(4, 0, self.used).flatten(0, 1).unbind(0)

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """The whole buffer, ``l 2 b h s d``, and the first slot of each sequence, for compiled steps on a CPU."""
        buffer = self._buffer
        if buffer.array is None:
            buffer.array = buffer.data.numpy()
        n = buffer.array.shape[2]
        return buffer.array, np.zeros(n, np.int64) if self.begins is None else self.begins.numpy()

    def read(self, layer: int) -> tuple[Float[Tensor, "b h s d"], Float[Tensor, "b h s d"]]:
        """The keys and values of a layer, without a copy."""
        data = self._buffer.data[layer]
        return data[0, :, :, : self.used], data[1, :, :, : self.used]

    def mask(self, t: int) -> Bool[Tensor, "#b t s"] | None:
        """The mask of the last ``t`` positions; None if they attend to all slots."""
        if self.begins is None:
            return None if t == 1 else causal_mask(t, self.used, self._buffer.data.device)[None]
        real = torch.arange(self.used, device=self.begins.device) >= self.begins[:, None, None]
        return real & causal_mask(t, self.used, self.begins.device)

    def select(self, rows: Int[Tensor, " m"]) -> KeyValueCache:
        """The cache of the given sequences in the given order, without the first slots that none of them uses."""
        few = rows.device.type == "cpu" and len(rows) <= _FEW_ROWS
        numbers = rows.tolist() if few else []
        if few and numbers == list(range(self._buffer.data.shape[2])):
            return self
        unused, begins = _trimmed(None if self.begins is None else self.begins[rows])
        data, used = self._buffer.data[..., unused : self.used, :], self.used - unused
        buffer = _fresh(data, len(rows), max(LEAST_ROOM, used + used // 2))
        here = buffer[..., :used, :]
        if few:
            for i, row in enumerate(numbers):  # four times as fast as one index_select into a part of the buffer
                here[:, :, i] = data[:, :, row]
        else:
            here.copy_(data.index_select(2, rows))
        return KeyValueCache(_Buffer(buffer, used), used, begins)

    @staticmethod
    def join(caches: Sequence[KeyValueCache]) -> KeyValueCache:
        """The sequences of several caches, concatenated, without the first slots that none of them uses."""
        if len(caches) == 1:
            return caches[0]
        most, first = max(cache.used for cache in caches), caches[0]._buffer.data
        sizes = [cache._buffer.data.shape[2] for cache in caches]
        none = torch.zeros(max(sizes, default=0), dtype=torch.long, device=first.device)
        each = [none[:n] if cache.begins is None else cache.begins for cache, n in zip(caches, sizes, strict=True)]
        later = [own + most - cache.used for cache, own in zip(caches, each, strict=True)]
        unused, begins = _trimmed(torch.cat(later))
        used = most - unused
        data = first.new_zeros(
            *first.shape[:2], sum(sizes), first.shape[3], max(LEAST_ROOM, used + used // 2), first.shape[5]
        )
        for cache, rows in zip(caches, data.split(sizes, dim=2), strict=True):
            own = min(cache.used, used)
            rows[..., used - own : used, :] = cache._buffer.data[..., cache.used - own : cache.used, :]
        return KeyValueCache(_Buffer(data, used), used, begins)


def _trimmed(begins: Int[Tensor, " b"] | None) -> tuple[int, Int[Tensor, " b"] | None]:
    """The number of first slots that no sequence uses, and the begins without them; None if all begin at 0."""
    if begins is None or not len(begins):
        return 0, begins
    low, high = (int(x) for x in begins.aminmax())
    return low, None if low == high else begins - low


def _fresh(like: Float[Tensor, "l 2 _ h _ d"], b: int, size: int) -> Float[Tensor, "l 2 b h s d"]:
    """A buffer for ``b`` sequences of at least ``size`` slots. On a CPU it may be reused from an earlier search."""
    n_layers, two, _, h, _, d = like.shape
    slot = n_layers * two * b * h * d
    if like.device.type != "cpu" or like.dtype != torch.float32 or not slot:
        return like.new_empty(n_layers, two, b, h, size, d)
    memory = scratch_array(slot * size)
    size = len(memory) // slot
    return torch.from_numpy(memory[: slot * size].reshape(n_layers, two, b, h, size, d))
