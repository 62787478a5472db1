"""Every loss equals enumeration over all tag sequences (or segmentations) of small sentences."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from catena.data.schemes import BILOU, IOB2, Dialect, SchemeError, Span, spans_to_tags, tags_to_spans
from catena.tasks.tag.structures import (
    ChainStructure,
    CrfTagStructure,
    MarginTagStructure,
    MemmTagStructure,
    PerceptronTagStructure,
    SegmentKinds,
    SemiMarkovStructure,
    SoftmaxTagStructure,
    TagStructure,
)

NAMES = ("B-A", "B-B", "I-A", "I-B", "O")
K, D, T = len(NAMES), 4, 4
LENGTHS = torch.tensor([4, 2, 1])
WHOLE = torch.tensor([[0, 2, 4, 1], [4, 0, -1, -1], [1, -1, -1, -1]])
HOLES = torch.tensor([[0, -1, -1, 4], [-1, -1, -1, -1], [1, -1, -1, -1]])
NEVER = -math.inf


def allowed(tags: Sequence[int]) -> bool:
    try:
        tags_to_spans([NAMES[q] for q in tags], "iob2")
    except SchemeError:
        return False
    return True


def rules() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    after = np.array([[allowed([p, q]) or not allowed([p]) for q in range(K)] for p in range(K)])
    for p in (2, 3):  # I cannot begin a sentence, so its successors are tested after a B
        after[p] = [allowed([p - 2, p, q]) for q in range(K)]
    return after, np.array([allowed([q]) for q in range(K)]), np.ones(K, bool)


def sequences(n: int, constrained: bool, known: Sequence[int] | None = None) -> Iterator[tuple[int, ...]]:
    for tags in itertools.product(range(K), repeat=n):
        fits = known is None or all(a in (-1, b) for a, b in zip(known, tags, strict=True))
        if fits and (not constrained or allowed(tags)):
            yield tags


def log_add(values: Iterator[float] | Sequence[float]) -> float:
    listed = list(values)
    top = max(listed)
    return top if top == NEVER else top + math.log(sum(math.exp(v - top) for v in listed))


def make(kind: type[ChainStructure], constrained: bool, *more: float) -> ChainStructure:
    torch.manual_seed(7)
    structure = kind(D, K, rules() if constrained else None, *more).double()
    for parameter in structure.parameters():
        torch.nn.init.normal_(parameter)
    return structure.requires_grad_(False)


def states() -> Tensor:
    return torch.randn(3, T, D, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def score(structure: ChainStructure, h: Tensor, tags: Sequence[int]) -> float:
    """s(y) of one sentence, as a plain sum."""
    total = float(structure.starts[tags[0]] + structure.ends[tags[-1]])
    for i, q in enumerate(tags):
        total += float(structure.output.weight[q] @ h[i] + structure.output.bias[q])
        if i:
            total += float(structure.transitions[tags[i - 1], q])
    return total


def rows(tags: Tensor) -> list[tuple[int, list[int]]]:
    return [(n, row[:n].tolist()) for row, n in zip(tags, LENGTHS.tolist(), strict=True)]


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("tags", [WHOLE, HOLES])
def test_crf_loss_equals_the_definition(tags: Tensor, constrained: bool) -> None:
    structure, h = make(CrfTagStructure, constrained), states()
    for loss, one, (n, known) in zip(structure.losses(h, tags, LENGTHS), h, rows(tags), strict=True):
        everything = log_add(score(structure, one, y) for y in sequences(n, constrained))
        right = log_add(score(structure, one, y) for y in sequences(n, constrained, known))
        assert loss.item() == pytest.approx(everything - right, abs=1e-9)


@pytest.mark.parametrize("tags", [WHOLE, HOLES])
def test_softmax_loss_equals_the_definition(tags: Tensor) -> None:
    torch.manual_seed(7)
    structure, h = SoftmaxTagStructure(D, K, rules()).double().requires_grad_(False), states()
    for loss, one, (_, known) in zip(structure.losses(h, tags, LENGTHS), h, rows(tags), strict=True):
        expected = 0.0
        for x, q in zip(one, known, strict=False):
            scores = [float(structure.output.weight[p] @ x + structure.output.bias[p]) for p in range(K)]
            expected += log_add(scores) - scores[q] if q >= 0 else 0.0
        assert loss.item() == pytest.approx(expected, abs=1e-9)


def memm_log_prob(structure: ChainStructure, h: Tensor, tags: Sequence[int], constrained: bool) -> float:
    """log p(y) = Σ log p(y_i | y_{i-1}), each factor normalized over the allowed tags."""
    after, begin, _ = rules()
    total = 0.0
    for i, q in enumerate(tags):
        table = structure.transitions[tags[i - 1]] if i else structure.starts
        may = (after[tags[i - 1]] if i else begin) if constrained else np.ones(K, bool)
        scores = [
            float(structure.output.weight[p] @ h[i] + structure.output.bias[p] + table[p]) if may[p] else NEVER
            for p in range(K)
        ]
        total += scores[q] - log_add(scores)
    return total


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("tags", [WHOLE, HOLES])
def test_memm_loss_equals_the_definition(tags: Tensor, constrained: bool) -> None:
    structure, h = make(MemmTagStructure, constrained), states()
    for loss, one, (n, known) in zip(structure.losses(h, tags, LENGTHS), h, rows(tags), strict=True):
        open_ = sequences(n, constrained, known)
        expected = -log_add(memm_log_prob(structure, one, y, constrained) for y in open_)
        assert loss.item() == pytest.approx(expected, abs=1e-9)


def test_a_memm_is_normalized_word_by_word() -> None:
    structure, h = make(MemmTagStructure, True), states()
    chain = structure.distribution(h, LENGTHS)
    torch.testing.assert_close(chain.log_partition(), torch.zeros(3, dtype=torch.float64), atol=1e-12, rtol=0)
    for b, n in enumerate(LENGTHS.tolist()):
        for y in sequences(n, True):
            row = torch.full((3, T), 4)
            row[b, :n] = torch.tensor(y)
            expected = memm_log_prob(structure, h[b], y, True)
            assert chain.log_prob(row)[b].item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("tags", [WHOLE, HOLES])
def test_perceptron_loss_equals_the_definition(tags: Tensor, constrained: bool) -> None:
    structure, h = make(PerceptronTagStructure, constrained), states()
    for loss, one, (n, known) in zip(structure.losses(h, tags, LENGTHS), h, rows(tags), strict=True):
        best = max(score(structure, one, y) for y in sequences(n, constrained))
        right = max(score(structure, one, y) for y in sequences(n, constrained, known))
        assert loss.item() == pytest.approx(best - right, abs=1e-9)


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("tags", [WHOLE, HOLES])
def test_margin_loss_equals_the_definition(tags: Tensor, constrained: bool) -> None:
    cost = 1.5
    structure, h = make(MarginTagStructure, constrained, cost), states()
    for loss, one, (n, known) in zip(structure.losses(h, tags, LENGTHS), h, rows(tags), strict=True):
        wrong = {y: sum(a not in (-1, b) for a, b in zip(known, y, strict=True)) for y in sequences(n, constrained)}
        best = max(score(structure, one, y) + cost * count for y, count in wrong.items())
        right = max(score(structure, one, y) for y, count in wrong.items() if not count)
        assert loss.item() == pytest.approx(best - right, abs=1e-9)


def built(kind: type[TagStructure]) -> TagStructure:
    return MarginTagStructure(D, K, rules(), 1.0) if kind is MarginTagStructure else kind(D, K, rules())


@pytest.mark.parametrize(
    "kind", [CrfTagStructure, MemmTagStructure, PerceptronTagStructure, MarginTagStructure, SoftmaxTagStructure]
)
def test_loss_is_independent_of_padding_and_batch(kind: type[TagStructure]) -> None:
    torch.manual_seed(2)
    structure = built(kind).double()
    h = states()
    together = structure.losses(h, WHOLE, LENGTHS)
    for b, n in enumerate(LENGTHS.tolist()):
        alone = structure.losses(h[b : b + 1, :n], WHOLE[b : b + 1, :n], LENGTHS[b : b + 1])
        torch.testing.assert_close(alone[0], together[b])


@pytest.mark.parametrize(
    "kind", [CrfTagStructure, MemmTagStructure, PerceptronTagStructure, MarginTagStructure, SoftmaxTagStructure]
)
def test_gradients_are_finite_with_constraints(kind: type[TagStructure]) -> None:
    structure = built(kind)
    for tags in (WHOLE, HOLES):
        structure.zero_grad()
        structure.losses(states().float(), tags, LENGTHS).sum().backward()
        grads = [p.grad for p in structure.parameters() if p.grad is not None]
        assert grads
        assert all(torch.isfinite(g).all() for g in grads)


# --- segments ---------------------------------------------------------------------------------------------------------


def segmentations(n: int, m: int, labels: int, outside: int | None) -> Iterator[list[tuple[int, int, int]]]:
    """All segmentations of n words with segments of at most m; outside segments have one word."""
    if n == 0:
        yield []
    for size in range(1, min(m, n) + 1):
        for label in range(labels):
            if label == outside and size > 1:
                continue
            for rest in segmentations(n - size, m, labels, outside):
                yield [*rest, (n - size, n, label)]


def segment_score(structure: SemiMarkovStructure, h: Tensor, segments: Sequence[tuple[int, int, int]]) -> float:
    total = float(structure.starts[segments[0][2]] + structure.ends[segments[-1][2]])
    for number, (i, j, y) in enumerate(segments):
        total += sum(float(structure.words.weight[y] @ h[p] + structure.words.bias[y]) for p in range(i, j))
        total += float(structure.first.weight[y] @ h[i] + structure.first.bias[y])
        total += float(structure.last.weight[y] @ h[j - 1] + structure.last.bias[y])
        total += float(structure.durations[j - i - 1, y])
        if number:
            total += float(structure.transitions[segments[number - 1][2], y])
    return total


def tags_of_segments(kinds: SegmentKinds, segments: Sequence[tuple[int, int, int]], n: int, own: Dialect) -> list[str]:
    spans = [Span(i, j, str(kinds.labels[y])) for i, j, y in segments if kinds.labels[y] is not None]
    return spans_to_tags(spans, n, own)


BILOU_NAMES = ("B-A", "B-B", "I-A", "I-B", "L-A", "L-B", "O", "U-A", "U-B")


@pytest.mark.parametrize(
    ("own", "names", "sentences"),
    [
        (IOB2, NAMES, ["B-A I-A O B-B", "? ? I-B ?", "O"]),
        (BILOU, BILOU_NAMES, ["B-A L-A O U-B", "? I-A ? ?", "?"]),
    ],
)
def test_segment_loss_equals_the_definition(own: Dialect, names: tuple[str, ...], sentences: list[str]) -> None:
    torch.manual_seed(4)
    m, kinds = 3, SegmentKinds(names, own)
    assert kinds.labels == ["A", "B", None]
    structure = SemiMarkovStructure(D, kinds, m).double().requires_grad_(False)
    for parameter in structure.parameters():
        torch.nn.init.normal_(parameter)
    known = [one.split() for one in sentences]
    lengths = torch.tensor([len(one) for one in known])
    tags = torch.full((3, T), -1)
    for row, one in zip(tags, known, strict=True):
        row[: len(one)] = torch.tensor([names.index(tag) if tag != "?" else -1 for tag in one])
    for some in ([0, 1, 2], [0]):  # with and without unknown tags in the batch
        h = states()[some]
        losses = structure.losses(h, tags[some], lengths[some])
        for loss, one, b in zip(losses, h, some, strict=True):
            n = len(known[b])
            listed = list(segmentations(n, m, 3, 2))
            fits = [
                y
                for y in listed
                if all(a in ("?", t) for a, t in zip(known[b], tags_of_segments(kinds, y, n, own), strict=True))
            ]
            assert 0 < len(fits) < len(listed) or known[b] == ["?"]
            everything = log_add([segment_score(structure, one, y) for y in listed])
            right = log_add([segment_score(structure, one, y) for y in fits])
            assert loss.item() == pytest.approx(everything - right, abs=1e-9)
