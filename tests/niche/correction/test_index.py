"""The index finds exactly the words within some edits, compared with the distances to all words."""

from __future__ import annotations

import numpy as np
import pytest

from catena.errors import ConfigError
from catena.niche.correction.index import DeleteIndex
from tests.oracle.spelling import edit_distance


def random_words(n: int, alphabet: str, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    words = {"".join(rng.choice(list(alphabet), int(rng.integers(0, 9)))) for _ in range(n)}
    return sorted(words)


@pytest.mark.parametrize("max_edits", [0, 1, 2])
@pytest.mark.parametrize("alphabet", ["ab", "abcdefg", "aä語😀"])
def test_search_finds_all_words_within_the_distance(max_edits: int, alphabet: str) -> None:
    words = random_words(200, alphabet, seed=1)
    index = DeleteIndex(words, max_edits)
    for query in [*random_words(15, alphabet + "x", seed=2), *words[:5], ""]:
        found = index.search(query)
        expected = {w: d for w, word in enumerate(words) if (d := edit_distance(query, word)) <= max_edits}
        assert len(found.words) == len(expected)
        assert dict(zip(found.words.tolist(), found.distances.tolist(), strict=True)) == expected


def test_search_with_fewer_edits_finds_fewer_words() -> None:
    words = random_words(200, "abc", seed=4)
    index = DeleteIndex(words)
    found = index.search("abca", max_edits=1)
    assert {words[w] for w in found.words} == {word for word in words if edit_distance("abca", word) <= 1}
    assert len(index.search("abca").words) > len(found.words)


def test_empty_index_finds_nothing() -> None:
    assert len(DeleteIndex([]).search("word").words) == 0


def test_unusable_max_edits_raises() -> None:
    with pytest.raises(ConfigError, match="max_edits must be 0, 1 or 2, got 3"):
        DeleteIndex(["a"], 3)
    with pytest.raises(ConfigError, match="max_edits must be from 0 to 1, got 2"):
        DeleteIndex(["a"], 1).search("b", 2)
