"""What is drawn follows its formulas (chi-square), trees are as short as can be, n-grams equal fastText's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.kernels.word2vec.cpu_sampling import (
    ALWAYS,
    LINE_END,
    expand_subwords,
    fill_alias,
    huffman_paths,
    ngram_parts,
    noise,
    pair_targets,
    subsample_words,
    windows,
    with_documents,
)
from tests.oracle import word2vec as oracle

SEED = np.uint64(20261115)


def chi_square_limit(degrees: int) -> float:
    """Above it lies about one of 10,000 draws (Wilson and Hilferty 1931)."""
    return degrees * (1 - 2 / (9 * degrees) + 3.72 * (2 / (9 * degrees)) ** 0.5) ** 3


def kept(
    ids: list[int] | np.ndarray, keep: np.ndarray, pieces: list[tuple[int, int, int]] | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The words, the lines and the spans of pieces, each from where to where, and in which line it begins."""
    lows, highs, first_lines = np.array(pieces or [(0, len(ids), 0)]).T.copy()
    words, lines, spans = (np.zeros(len(ids), np.int32) for _ in range(3))
    n = subsample_words(np.array(ids, np.int32), lows, highs, first_lines, keep, SEED, words, lines, spans)
    return words[:n], lines[:n], spans[:n]


def drawn_windows(ids: list[int], window: int, dynamic: bool = True, positions: int = 0) -> list[list[int]]:
    words, _, spans = kept(ids, np.full(max(ids) + 1, ALWAYS, np.uint64))
    n = len(words)
    first, context = np.zeros(n + 1, np.int64), np.zeros(2 * window * n + 1, np.int32)
    windows(words, spans, n, window, dynamic, positions, SEED, first, context)
    return [context[first[i] : first[i + 1]].tolist() for i in range(n)]


def test_subsampling_keeps_each_word_as_often_as_its_formula_says() -> None:
    shares = [oracle.kept_share(f, 1e-3) for f in (0.05, 0.01, 0.004, 0.0001)]
    keep = np.array([round(share * 2**32) for share in shares], np.uint64)
    n = 40_000
    ids = np.repeat(np.arange(4, dtype=np.int32), n)
    counts = np.bincount(kept(ids, keep)[0], minlength=4)
    assert counts[3] == n
    seen = [x for c in counts[:3] for x in (c, n - c)]
    expected = [x for share in shares[:3] for x in (n * share, n * (1 - share))]
    assert oracle.chi_square(seen, expected) < chi_square_limit(3)


def test_lines_are_numbered_and_rare_words_leave_no_gap() -> None:
    keep = np.array([ALWAYS, 0, ALWAYS], np.uint64)
    ids = [0, 1, 2, LINE_END, LINE_END, 2, 1, LINE_END, 0]
    words, lines, _ = kept(ids, keep, [(0, 9, 7)])
    assert words.tolist() == [0, 2, 2, 0]
    assert lines.tolist() == [7, 7, 9, 10]


def test_pieces_keep_their_order_and_windows_stay_inside() -> None:
    ids = [0, 1, 2, LINE_END, 3, 4]
    words, lines, spans = kept(ids, np.full(5, ALWAYS, np.uint64), [(1, 6, 8), (0, 1, 8)])
    assert words.tolist() == [1, 2, 3, 4, 0]
    assert lines.tolist() == [8, 8, 9, 9, 8]
    assert [spans.tolist().index(span) for span in spans.tolist()] == [0, 0, 2, 2, 4]


def test_dynamic_window_size_is_uniform() -> None:
    window, n = 5, 30_000
    found = drawn_windows([7] * n, window)
    reach = [len(context) // 2 for context in found[window:-window]]
    seen = np.bincount(reach, minlength=window + 1)
    assert seen[0] == 0
    expected = [len(reach) / window] * window
    assert oracle.chi_square(seen[1:].tolist(), expected) < chi_square_limit(window - 1)


def test_fixed_window_has_all_neighbors_in_order() -> None:
    assert drawn_windows([0, 1, 2, LINE_END, 3, 4, LINE_END, 5], 2, dynamic=False) == [
        [1, 2], [0, 2], [0, 1], [4], [3], [],
    ]  # fmt: skip


@pytest.mark.parametrize("positions", [1, 2, 4, 8])
def test_random_positions_are_different_and_uniform(positions: int) -> None:
    window, n = 4, 12_000
    ids = list(range(n))
    found = drawn_windows(ids, window, positions=positions)[window:-window]
    offsets = [c - i for i, context in enumerate(found, start=window) for c in context]
    assert all(len(set(context)) == positions for context in found)
    names = [*range(-window, 0), *range(1, window + 1)]
    seen = [offsets.count(name) for name in names]
    expected = [len(found) * positions / (2 * window)] * (2 * window)
    assert sum(seen) == len(offsets)
    assert oracle.chi_square(seen, expected) < chi_square_limit(2 * window - 1)


def test_random_positions_never_leave_the_line() -> None:
    ids = [0, 0, 0, LINE_END, 1, 1, LINE_END, 2, LINE_END] * 50
    words = [w for w in ids if w >= 0]
    assert len(words) > 0
    for word, context in zip(words, drawn_windows(ids, 5, positions=6), strict=True):
        assert set(context) <= {word}


def alias_of(weights: list[float]) -> np.ndarray:
    table = np.zeros(len(weights), np.uint64)
    fill_alias(np.array(weights, np.float64), table)
    return table


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=30).filter(lambda w: sum(w) > 1e-6))
def test_alias_table_equals_its_distribution(weights: list[float]) -> None:
    table = alias_of(weights)
    v = len(weights)
    held = np.zeros(v)
    for column, cell in enumerate(table.tolist()):
        own = (cell >> 32) / 2**32
        held[column] += own / v
        held[cell & 0xFFFFFFFF] += (1 - own) / v
    assert held == pytest.approx(np.array(weights) / sum(weights), abs=1e-8)


@pytest.mark.parametrize("but_target", [True, False])
def test_noise_is_sampled_in_proportion_and_is_never_the_target(but_target: bool) -> None:
    weights = [8.0, 4.0, 2.0, 1.0, 1.0]
    n, k = 8_000, 5
    drawn = np.zeros(n * k, np.int32)
    noise(np.full(n, 1, np.int32), n, k, alias_of(weights), but_target, SEED, drawn)
    seen = np.bincount(drawn, minlength=5)
    if but_target:
        assert seen[1] == 0
        weights[1] = 0.0
    expected = [n * k * w / sum(weights) for w in weights]
    assert oracle.chi_square(seen.tolist(), expected) < chi_square_limit(4)


def test_noise_sampling_ends_if_only_the_target_is_left() -> None:
    drawn = np.zeros(4, np.int32)
    noise(np.array([0, 1], np.int32), 2, 2, alias_of([1.0, 0.0]), True, SEED, drawn)
    assert drawn.tolist() == [1, 1, 0, 0]


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=40))
def test_huffman_codes_are_optimal_and_prefix_free(counts: list[int]) -> None:
    counts = sorted(counts, reverse=True)
    first = np.zeros(len(counts) + 1, np.int64)
    total = huffman_paths(np.array(counts), first, np.zeros(0, np.int32), np.zeros(0, np.uint8))
    nodes, codes = np.zeros(total, np.int32), np.zeros(total, np.uint8)
    assert huffman_paths(np.array(counts), first, nodes, codes) == total
    paths = [tuple(codes[first[w] : first[w + 1]].tolist()) for w in range(len(counts))]
    assert sum(c * len(path) for c, path in zip(counts, paths, strict=True)) == oracle.huffman_cost(counts)
    assert sum(2.0 ** -len(path) for path in paths) == 1.0
    for i, a in enumerate(paths):
        assert all(b[: len(a)] != a for j, b in enumerate(paths) if i != j)
    root = len(counts) - 2
    by_prefix: dict[tuple[int, ...], int] = {(): root}
    for w, path in enumerate(paths):  # every prefix of codes stands for one and the same node
        for depth, node in enumerate(nodes[first[w] : first[w + 1]].tolist()):
            assert by_prefix.setdefault(path[:depth], node) == node
    assert sorted(by_prefix.values()) == list(range(len(counts) - 1))


@pytest.mark.parametrize("span", [(3, 6), (1, 2), (2, 2)])
@pytest.mark.parametrize("with_word", [True, False])
def test_ngrams_equal_fasttext(span: tuple[int, int], with_word: bool) -> None:
    words = ["where", "a", "日本語", "naïve", "🙂é", "x" * 40]
    names = np.frombuffer("".join(words).encode(), np.uint8).copy()
    ends = np.cumsum([len(w.encode()) for w in words]).astype(np.int64)
    base, bucket = (len(words), 1000) if with_word else (0, 1000)
    first = np.zeros(len(words) + 1, np.int64)
    n = ngram_parts(names, ends, *span, bucket, base, first, np.zeros(0, np.int32))
    parts = np.zeros(n, np.int32)
    ngram_parts(names, ends, *span, bucket, base, first, parts)
    for w, word in enumerate(words):
        wanted = [base + oracle.fnv1a(gram) % bucket for gram in oracle.character_ngrams(word, *span)]
        assert parts[first[w] : first[w + 1]].tolist() == ([w] if with_word else []) + wanted


def test_bags_have_their_words_and_their_document() -> None:
    first, bag = np.array([0, 2, 2, 3]), np.array([1, 0, 1], np.int32)
    part_first, parts = np.array([0, 1, 4]), np.array([0, 1, 7, 8], np.int32)
    new_first, new_bag = np.zeros(4, np.int64), np.zeros(20, np.int32)
    expand_subwords(first, bag, 3, part_first, parts, new_first, new_bag)
    assert new_first.tolist() == [0, 4, 4, 7]
    assert new_bag[:7].tolist() == [1, 7, 8, 0, 1, 7, 8]
    with_documents(first, bag, np.array([5, 5, 6], np.int32), 3, 100, new_first, new_bag)
    assert new_first.tolist() == [0, 3, 4, 6]
    assert new_bag[:6].tolist() == [105, 1, 0, 105, 106, 1]
    targets = np.zeros(3, np.int32)
    pair_targets(np.array([9, 8, 7], np.int32), first, 3, targets)
    assert targets.tolist() == [9, 9, 7]
