"""The memory of the key-value cache; tests/encoders/test_causal.py tests its results."""

from __future__ import annotations

import torch

from catena.attention.cache import KeyValueCache


def one(b: int = 2) -> torch.Tensor:
    return torch.randn(b, 1, 1, 4)


def empty(b: int = 2) -> KeyValueCache:
    return KeyValueCache.empty(1, b, 1, 4, torch.device("cpu"), torch.float32)


def grown(cache: KeyValueCache, steps: int) -> tuple[KeyValueCache, int]:
    """The cache after this many steps, and the number of reallocations."""
    places = set()
    for _ in range(steps):
        cache = cache.grown(1)
        cache.write(0, one(), one())
        places.add(cache.read(0)[0].data_ptr())
    return cache, len(places)


def test_cache_is_reallocated_only_when_its_capacity_doubles() -> None:
    _, moves = grown(empty(), 1000)
    assert moves <= 7  # 32, 64, … 1024


def test_cache_is_copied_only_if_it_grows_a_second_time() -> None:
    cache, _ = grown(empty(), 5)
    first, second = cache.grown(1), cache.grown(1)
    assert first.read(0)[0].data_ptr() == cache.read(0)[0].data_ptr()
    assert second.read(0)[0].data_ptr() != cache.read(0)[0].data_ptr()
    assert torch.equal(second.read(0)[0][:, :, :5], cache.read(0)[0])


def test_cache_select_of_all_rows_in_order_does_not_copy() -> None:
    cache, _ = grown(empty(), 3)
    assert cache.select(torch.tensor([0, 1])) is cache
    assert cache.select(torch.tensor([1, 0])).read(0)[0].equal(cache.read(0)[0].flip(0))
    many = cache.select(torch.arange(100) % 2)
    assert many.read(0)[1].equal(cache.read(0)[1][torch.arange(100) % 2])


def numbered(steps: int, first: int = 0) -> KeyValueCache:
    """A cache of one sequence with keys and values first, first + 1, …"""
    cache = empty(1)
    for i in range(steps):
        cache = cache.grown(1)
        cache.write(0, torch.full((1, 1, 1, 4), float(first + i)), torch.full((1, 1, 1, 4), -float(first + i)))
    return cache


def kept(cache: KeyValueCache) -> list[list[float]]:
    """The keys of each sequence, after a check that the values are their negatives."""
    keys, values = cache.read(0)
    begins = [0] * len(keys) if cache.begins is None else cache.begins.tolist()
    assert torch.equal(keys, -values)
    return [row[0, begin:, 0].tolist() for row, begin in zip(keys, begins, strict=True)]


def test_select_drops_leading_slots_that_no_selected_row_uses() -> None:
    joined = KeyValueCache.join([numbered(9), numbered(4, 20), numbered(2, 30)])
    assert (joined.used, kept(joined)) == (9, [[*range(9)], [20, 21, 22, 23], [30, 31]])
    shorter = joined.select(torch.tensor([2, 1]))
    assert (shorter.used, kept(shorter)) == (4, [[30, 31], [20, 21, 22, 23]])
    assert torch.equal(torch.as_tensor(shorter.start), torch.tensor([2, 4]))
    last = shorter.select(torch.tensor([0]))
    assert (last.used, last.begins, kept(last)) == (2, None, [[30, 31]])
    many = joined.select(torch.arange(100) % 2 + 1)
    assert (many.used, kept(many)) == (4, [[20, 21, 22, 23], [30, 31]] * 50)
    assert joined.select(torch.tensor([], dtype=torch.int64)).read(0)[0].shape[0] == 0


def test_join_drops_leading_slots_that_no_row_uses() -> None:
    # Rows that a beam selects in order are not copied, so unused slots can reach a join.
    ragged = KeyValueCache.join([numbered(9), numbered(4, 20)])
    unused = KeyValueCache(ragged.select(torch.tensor([1, 1]))._buffer, 4, torch.tensor([2, 3]))
    joined = KeyValueCache.join([unused, numbered(1, 30)])
    assert (joined.used, kept(joined)) == (2, [[22, 23], [23], [30]])
    same = KeyValueCache.join([numbered(3), numbered(3, 20)])
    assert (same.begins, kept(same)) == (None, [[0, 1, 2], [20, 21, 22]])


def test_cache_has_as_many_slots_as_the_longest_row_of_the_batch() -> None:
    cache, most = KeyValueCache.join([numbered(1 + i) for i in range(4)]), 0
    for _ in range(100):
        lengths = cache.used - (torch.zeros(4, dtype=torch.int64) if cache.begins is None else cache.begins)
        rows = (lengths < 10).nonzero()[:, 0]
        cache = KeyValueCache.join([cache.select(rows), *(numbered(1) for _ in range(4 - len(rows)))]).grown(1)
        cache.write(0, one(4), one(4))
        most = max(most, cache.used)
    assert most == 10
