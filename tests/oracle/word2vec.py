"""Losses of word vectors by their formulas in double precision with torch's autograd, Huffman's tree by ``heapq``, and
character n-grams by slicing. Slow, obvious, and shares nothing with the kernels."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from itertools import count

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


def hidden(inputs: Tensor, bag: Sequence[int], mean: bool) -> Tensor:
    rows = inputs[list(bag)]
    return rows.mean(0) if mean else rows.sum(0)


def negative(
    inputs: Tensor, outputs: Tensor, bag: Sequence[int], word: int, noise: Sequence[int], mean: bool
) -> Tensor:
    h = hidden(inputs, bag, mean)
    return -logsigmoid(h @ outputs[word]) - sum(logsigmoid(-(h @ outputs[other])) for other in noise)


def contrastive(
    inputs: Tensor,
    outputs: Tensor,
    bias: Tensor,
    bag: Sequence[int],
    word: int,
    noise: Sequence[int],
    q: Sequence[float],
) -> Tensor:
    """-log P(+ | word) - sum of log P(- | other), where P(+ | w) = u / (k q + u) and u = exp(score)."""
    h, k = hidden(inputs, bag, True), len(noise)

    def u(w: int) -> Tensor:
        return torch.exp(h @ outputs[w] + bias[w])

    loss = -torch.log(u(word) / (k * q[word] + u(word)))
    for other in noise:
        loss = loss - torch.log(k * q[other] / (k * q[other] + u(other)))
    return loss


def product(inputs: Tensor, outputs: Tensor, bag: Sequence[int], word: int, noise: Sequence[int]) -> Tensor:
    """P(+ | word, window) is the product of sigmoid(word · c) over the window, and so is P(- | other, window)."""
    loss = torch.zeros((), dtype=torch.float64)
    for c in bag:
        loss = loss - torch.log(torch.sigmoid(inputs[c] @ outputs[word]))
        for other in noise:
            loss = loss - torch.log(1 - torch.sigmoid(inputs[c] @ outputs[other]))
    return loss


def hierarchical(
    inputs: Tensor, outputs: Tensor, bag: Sequence[int], path: Sequence[tuple[int, int]], mean: bool
) -> Tensor:
    h = hidden(inputs, bag, mean)
    return -sum(logsigmoid((1 - 2 * code) * (h @ outputs[node])) for node, code in path)


def softmax(inputs: Tensor, outputs: Tensor, bag: Sequence[int], word: int, mean: bool) -> Tensor:
    return -torch.log_softmax(outputs @ hidden(inputs, bag, mean), 0)[word]


def gradients(loss: Callable[..., Tensor], *parameters: Tensor) -> tuple[float, list[Tensor]]:
    """The loss at the parameters, and its gradient by each."""
    leaves = [p.double().clone().requires_grad_() for p in parameters]
    value = loss(*leaves)
    value.backward()
    return value.item(), [leaf.grad for leaf in leaves]


def huffman_cost(counts: Sequence[int]) -> int:
    """The least sum of count times depth of any binary tree over the words."""
    numbers = count()
    heap = [(c, next(numbers)) for c in counts]
    heapq.heapify(heap)
    total = 0
    while len(heap) > 1:
        joined = heapq.heappop(heap)[0] + heapq.heappop(heap)[0]
        total += joined
        heapq.heappush(heap, (joined, next(numbers)))
    return total


def kept_share(frequency: float, threshold: float) -> float:
    """How often a word of this frequency is kept: (sqrt(f/t) + 1) t/f, at most 1."""
    return min(1.0, (math.sqrt(frequency / threshold) + 1) * threshold / frequency)


def character_ngrams(word: str, shortest: int, longest: int) -> list[str]:
    """The n-grams of ``<word>``, from left to right, short ones first; except the single brackets."""
    marked = f"<{word}>"
    found = [
        marked[i : i + n] for i in range(len(marked)) for n in range(shortest, longest + 1) if i + n <= len(marked)
    ]
    return [gram for gram in found if gram not in ("<", ">")]


def fnv1a(text: str) -> int:
    """The 32-bit hash of fastText, which takes each byte as a signed number."""
    h = 2166136261
    for byte in text.encode():
        signed = byte - 256 if byte > 127 else byte
        h = ((h ^ (signed & 0xFFFFFFFF)) * 16777619) & 0xFFFFFFFF
    return h


def chi_square(seen: Sequence[float], expected: Sequence[float]) -> float:
    return sum((s - e) ** 2 / e for s, e in zip(seen, expected, strict=True) if e > 0)
