"""Training a Tree-LSTM: Catena, level by level, compared with the usual recursion over nodes.

    python benchmarks/tree_lstm.py [--threads 1 2] [--rounds 5] [--trees FILE] [--batch 25] [--d 150]

A step is forward, backward and Adagrad over a batch of binary trees with a class at every node: those of a bracket file
such as the Stanford trees, or random ones of similar size. The recursion has one product for all gates of a node, and
computes embeddings and class scores for the whole batch: only the tree itself is processed node by node. It is timed
with fixed word vectors, and with a trained table of 10,000, whose update costs both sides the same.
Both start from the same weights, and their losses must agree before anything is timed. Rounds alternate; seconds are
medians, ratios medians of the ratios of each round.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catena.data.readers.brackets import read
from catena.encoders.tree_batch import TreeBatchBuilder
from catena.encoders.tree_lstm import NaryTreeLSTM
from catena.tasks.classify.trees.data import TreeLimits, build_shape

V, K = 10_000, 5


class ByHand(nn.Module):
    """A binary Tree-LSTM, one node at a time."""

    def __init__(self, d_in: int, d: int) -> None:
        super().__init__()
        self.d = d
        self.embedding = nn.Embedding(V, d_in)
        self.leaf = nn.Linear(d_in, 3 * d)
        self.inner = nn.Linear(2 * d, 5 * d)
        self.output = nn.Linear(d, K)

    def forward(self, children: list[list[int]], vectors: Tensor) -> Tensor:
        """Return the states of all nodes of one tree, by recursion from its root; ``vectors`` are the word vectors."""
        found: list[Tensor] = [vectors] * len(children)

        def visit(node: int) -> tuple[Tensor, Tensor]:
            if children[node]:
                (h_l, c_l), (h_r, c_r) = (visit(child) for child in children[node])
                u, i, o, f_l, f_r = self.inner(torch.cat((h_l, h_r))).chunk(5)
                c = i.sigmoid() * u.tanh() + f_l.sigmoid() * c_l + f_r.sigmoid() * c_r
            else:
                u, i, o = self.leaf(vectors[node]).chunk(3)
                c = i.sigmoid() * u.tanh()
            found[node] = o.sigmoid() * c.tanh()
            return found[node], c

        visit(0)
        return torch.stack(found)


class Trees:
    """Trees in the form that both sides use: parents, words and classes of their nodes."""

    def __init__(self, parents: list[list[int]], rng: np.random.Generator) -> None:
        self.forest = TreeBatchBuilder.of(parents)
        n = len(self.forest.parents)
        self.words = torch.from_numpy(rng.integers(0, V, n))
        self.labels = torch.from_numpy(rng.integers(0, K, n))
        self.children = [[[] for _ in tree] for tree in parents]
        for below, tree in zip(self.children, parents, strict=True):
            for node, parent in enumerate(tree):
                if parent >= 0:
                    below[parent].append(node)


def by_hand(model: ByHand, trees: Trees, batches: list[np.ndarray]) -> Callable[[], float]:
    optimizer = torch.optim.Adagrad([p for p in model.parameters() if p.requires_grad], 0.01, fused=True)

    def run() -> float:
        for rows in batches:
            nodes = torch.from_numpy(trees.forest.nodes_of(rows))
            vectors = model.embedding(trees.words[nodes]).split(trees.forest.sizes[rows].tolist())
            states = [model(trees.children[row], own) for row, own in zip(rows.tolist(), vectors, strict=True)]
            loss = F.cross_entropy(model.output(torch.cat(states)), trees.labels[nodes])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item()

    return run


def by_level(start: ByHand, trees: Trees, batches: list[np.ndarray]) -> Callable[[], float]:
    """Return the same steps with Catena's encoder and the same weights. Batches are split into levels every time."""
    d_in, d = start.embedding.embedding_dim, start.d
    encoder = NaryTreeLSTM(d_in, d)
    embedding, output = nn.Embedding(V, d_in), nn.Linear(d, K)
    embedding.load_state_dict(start.embedding.state_dict())
    output.load_state_dict(start.output.state_dict())
    with torch.no_grad():
        encoder.weight_x[: 3 * d] = start.leaf.weight
        encoder.weight_h.copy_(start.inner.weight)
    # The script has separate biases for leaves and inner nodes; Catena has one. Start all of them at one value.
    with torch.no_grad():
        for bias in (start.leaf.bias, start.inner.bias, encoder.bias):
            bias.zero_()
    embedding.requires_grad_(start.embedding.weight.requires_grad)
    weights = [*embedding.parameters(), *encoder.parameters(), *output.parameters()]
    optimizer = torch.optim.Adagrad([p for p in weights if p.requires_grad], 0.01, fused=True)

    def run() -> float:
        for rows in batches:
            batch = trees.forest.batch(rows)
            states = encoder(embedding(trees.words[torch.from_numpy(batch.inputs)]), batch)
            loss = F.cross_entropy(output(states), trees.labels[torch.from_numpy(batch.nodes)])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item()

    return run


def random_parents(rng: np.random.Generator) -> list[int]:
    """Return a random binary tree over about 19 words, split at random positions from the root down."""
    parents: list[int] = []
    waiting = [(-1, int(rng.integers(5, 34)))]
    while waiting:
        parent, size = waiting.pop()
        node = len(parents)
        parents.append(parent)
        if size > 1:
            left = int(rng.integers(1, size))
            waiting += [(node, size - left), (node, left)]
    return parents


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--trees", type=Path, help="a bracket file; default: random trees")
    parser.add_argument("--batch", type=int, default=25)
    parser.add_argument("--d", type=int, default=150)
    parser.add_argument("--d-in", type=int, default=300)
    flags = parser.parse_args()
    rng = np.random.default_rng(0)
    if flags.trees:
        parents = [build_shape(tree, TreeLimits(2, chains=False)).parents for tree in read(flags.trees)][:1000]
    else:
        parents = [random_parents(rng) for _ in range(1000)]
    trees = Trees(parents, rng)
    batches = [rng.choice(len(parents), flags.batch, replace=False) for _ in range(2)]
    nodes = sum(len(parents[row]) for rows in batches for row in rows)
    print(f"batches of {flags.batch} trees, {nodes / len(batches):.0f} nodes on average, d = {flags.d}")
    for threads in flags.threads:
        torch.set_num_threads(threads)
        for learned in (False, True):
            torch.manual_seed(0)
            model = ByHand(flags.d_in, flags.d)
            model.embedding.requires_grad_(learned)
            ours = by_level(model, trees, batches)
            theirs = by_hand(model, trees, batches)
            found, wanted = ours(), theirs()
            assert abs(found - wanted) < 1e-3, f"the losses differ: {found} by level, {wanted} by node"
            what = f"{threads} thread{'s' if threads > 1 else ''}, word vectors {'trained' if learned else 'fixed'}"
            print(f"{what}: {compared(theirs, ours, flags.rounds, len(batches))}")


def compared(theirs: Callable[[], float], ours: Callable[[], float], rounds: int, steps: int) -> str:
    times: dict[str, list[float]] = {"by node": [], "by level": []}
    for _ in range(rounds):
        for name, run in (("by node", theirs), ("by level", ours)):
            start = time.process_time()
            run()
            times[name].append(time.process_time() - start)
    ratios = [a / b for a, b in zip(times["by node"], times["by level"], strict=True)]
    medians = {name: 1000 * statistics.median(some) / steps for name, some in times.items()}
    listed = ", ".join(f"{name} {value:.0f} ms per step" for name, value in medians.items())
    return (
        f"{listed}; by level is {statistics.median(ratios):.1f} times as fast (from {min(ratios):.1f} to "
        f"{max(ratios):.1f} in {rounds} rounds)"
    )


if __name__ == "__main__":
    main()
