"""Stored rows: in memory and on disk, whole and in groups."""

from __future__ import annotations

import numpy as np
import pytest

from catena.tasks.classify.linear import data
from catena.tasks.classify.linear.data import RowSpool, Spool, StoredTexts
from catena.tasks.classify.linear.features import FeatureRows, row_starts, take_rows


@pytest.fixture(params=[2**20, 40], ids=["memory", "disk"], autouse=True)
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(data, "IN_MEMORY", request.param)
    return int(request.param)


def test_spool_returns_what_was_appended(memory: int) -> None:
    spool, wanted = Spool(np.int64), np.arange(57) ** 2
    for part in np.split(wanted, [3, 3, 20, 50]):
        spool.append(part)
    assert len(spool) == 57
    for low, high in ((0, 57), (5, 30), (30, 30), (56, 57)):
        assert spool.read(low, high).tolist() == wanted[low:high].tolist()
    assert (spool._file is not None) == (memory == 40)
    spool.append(np.array([-1]))
    assert spool.read(55, 58).tolist() == [55**2, 56**2, -1]


def stored(n: int = 20) -> tuple[StoredTexts, list[list[int]]]:
    rows = [list(range(i % 5)) for i in range(n)]
    texts = StoredTexts(RowSpool(), Spool(), [("a",), ("b",), ("c",)], np.ones(3))
    for low in range(0, n, 6):
        some = rows[low : low + 6]
        ids = np.array([x for row in some for x in row], np.int32)
        texts.append(FeatureRows(ids, row_starts(list(map(len, some)))), np.arange(low, low + len(some)) % 2)
    return texts, rows


def test_chunks_return_their_rows() -> None:
    texts, rows = stored()
    assert (len(texts), texts.n_chunks, texts.features.longest) == (20, 4, 4)
    found: list[list[int]] = []
    for chunk in range(texts.n_chunks):
        own, gold = texts.read(chunk)
        assert gold.tolist() == [(len(found) + i) % 2 for i in range(len(own))]
        found += [own.ids[own.first[i] : own.first[i + 1]].tolist() for i in range(len(own))]
    assert found == rows
    assert texts.count_sets() == {("a",): 10, ("b",): 10}


def test_gathered_chunks_are_in_the_given_order() -> None:
    texts, rows = stored()
    own, gold, index = texts.gather(np.array([3, 0]))
    assert index.tolist() == [18, 19, 0, 1, 2, 3, 4, 5]
    assert [own.ids[own.first[i] : own.first[i + 1]].tolist() for i in range(8)] == [rows[i] for i in index]
    assert gold.tolist() == (index % 2).tolist()


@pytest.mark.parametrize("limit", [1, 25, 10**6])
def test_groups_hold_every_chunk_once(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "WHOLE", limit)
    texts, _ = stored()
    groups = [group.tolist() for group in texts.groups(np.array([2, 0, 3, 1]))]
    assert [chunk for group in groups for chunk in group] == [2, 0, 3, 1]
    assert len(groups) == {1: 4, 25: 2, 10**6: 1}[limit]


def test_taken_rows_keep_their_values() -> None:
    flat, first = np.array([5, 6, 7, 8, 9]), np.array([0, 2, 2, 5])
    values, starts = take_rows(flat, first, np.array([2, 1, 0]))
    assert values.tolist() == [7, 8, 9, 5, 6]
    assert starts.tolist() == [0, 3, 3, 5]
