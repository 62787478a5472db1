"""Pointing rules compared to a plain list of allowed positions."""

from __future__ import annotations

from itertools import combinations, product

import pytest
import torch

from catena.errors import UnknownNameError
from catena.seq2seq.pointing import END, RULES, allowed_after, allowed_ids


def possible(rule: str, before: list[int], n: int) -> set[int | None]:
    """The positions that may follow, and None for the end, in plain Python."""
    left = {j for j in range(n) if j not in before}
    if rule == "any":
        return {*range(n), None}
    if rule == "some":
        return {*left, None}
    if rule == "order":
        return set(left) or {None}
    if rule == "ring":
        if before and before[0] in before[1:]:
            return {None}
        return left | ({before[0]} if before else set())
    done = [frozenset(before[i : i + 3]) for i in range(0, len(before) - 2, 3)]
    begun = before[3 * len(done) :]
    room = len(done) < 2 * n - 5
    free = [three for three in map(frozenset, combinations(range(n), 3)) if three not in done]
    following = {j for three in free if three.issuperset(begun) for j in three} - set(begun)
    if begun:
        return set(following)
    return {*(following if room else ()), None}


@pytest.mark.parametrize("rule", list(RULES))
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_pointing_rule_equals_reference_on_every_path(rule: str, n: int) -> None:
    width = n + 2  # two positions of padding
    real = torch.arange(width)[None] < n
    waiting: list[list[int]] = [[]]
    seen = 0
    while waiting and seen < 300:
        before = waiting.pop(0)
        seen += 1
        ids = torch.tensor([[j + 1 for j in before]], dtype=torch.int64).reshape(1, len(before))
        may = allowed_ids(rule, ids, real)
        assert may.shape == (1, len(before) + 1, width + 1)
        wanted = possible(rule, before, n)
        assert {None if k == END else k - 1 for k in may[0, -1].nonzero()[:, 0].tolist()} == wanted
        waiting += [[*before, j] for j in sorted(x for x in wanted if x is not None)]
    assert rule in ("any",) or n < 4 or seen > 20


@pytest.mark.parametrize("rule", list(RULES))
def test_allowed_ids_of_all_prefixes_and_after_the_end(rule: str) -> None:
    generator = torch.Generator().manual_seed(0)
    before = torch.randint(0, 6, (40, 7), generator=generator)
    lengths = torch.randint(1, 6, (40,), generator=generator)
    real = torch.arange(5) < lengths[:, None]
    whole = allowed_ids(rule, before, real)
    for t in range(8):
        assert torch.equal(allowed_ids(rule, before[:, :t], real)[:, -1], whole[:, t])
        assert torch.equal(allowed_after(rule, before, torch.full((40,), t), real), whole[:, t])
    some = torch.randint(0, 8, (40,), generator=generator)
    assert torch.equal(allowed_after(rule, before, some, real), whole[torch.arange(40), some])
    assert whole.any(dim=-1).all()
    assert not (whole[..., 1:] & ~real[:, None]).any()
    for row, t in product(range(40), range(8)):
        if (before[row, :t] == END).any():
            assert whole[row, t].nonzero()[:, 0].tolist() == [END]


def test_unknown_pointing_rule_raises() -> None:
    with pytest.raises(UnknownNameError, match="rule of pointing"):
        allowed_ids("spiral", torch.zeros(1, 0, dtype=torch.int64), torch.ones(1, 2, dtype=torch.bool))


@pytest.mark.parametrize(
    "before", [[0, 1, 2, 0, 1, 3, 0], [0, 1, 2, 3, 1, 0, 1], [0, 1, 2, 0, 1, 3, 0, 2, 3], [3, 2, 1]]
)
def test_triples_rule_never_starts_an_exhausted_triple(before: list[int]) -> None:
    ids = torch.tensor([[j + 1 for j in before]])
    may = allowed_ids("triples", ids, torch.ones(1, 4, dtype=torch.bool))[0, -1]
    assert {None if k == END else k - 1 for k in may.nonzero()[:, 0].tolist()} == possible("triples", before, 4)
