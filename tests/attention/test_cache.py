"""The cache of keys and values as memory; that it gives the right results is in tests/encoders/test_causal.py."""

from __future__ import annotations

import torch

from catena.attention.cache import KeyValueCache


def one(b: int = 2) -> torch.Tensor:
    return torch.randn(b, 1, 1, 4)


def empty(b: int = 2) -> KeyValueCache:
    return KeyValueCache.empty(1, b, 1, 4, torch.device("cpu"), torch.float32)


def grown(cache: KeyValueCache, steps: int) -> tuple[KeyValueCache, int]:
    """The cache after so many steps, and how often it moved."""
    places = set()
    for _ in range(steps):
        cache = cache.grown(1)
        cache.write(0, one(), one())
        places.add(cache.read(0)[0].data_ptr())
    return cache, len(places)


def test_steps_move_the_cache_as_often_as_its_room_doubles() -> None:
    _, moves = grown(empty(), 1000)
    assert moves <= 7  # 32, 64, … 1024


def test_only_what_is_gone_on_from_a_second_time_is_copied() -> None:
    cache, _ = grown(empty(), 5)
    first, second = cache.grown(1), cache.grown(1)
    assert first.read(0)[0].data_ptr() == cache.read(0)[0].data_ptr()
    assert second.read(0)[0].data_ptr() != cache.read(0)[0].data_ptr()
    assert torch.equal(second.read(0)[0][:, :, :5], cache.read(0)[0])


def test_all_rows_in_their_order_are_no_work() -> None:
    cache, _ = grown(empty(), 3)
    assert cache.select(torch.tensor([0, 1])) is cache
    assert cache.select(torch.tensor([1, 0])).read(0)[0].equal(cache.read(0)[0].flip(0))
    many = cache.select(torch.arange(100) % 2)
    assert many.read(0)[1].equal(cache.read(0)[1][torch.arange(100) % 2])
