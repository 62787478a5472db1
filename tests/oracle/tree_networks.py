"""Tree networks by plain recursion over nested tuples, one node at a time, in numpy. Imports nothing of catena.

A tree is ``(x, children)``: its input vector or None, and a list of trees. Weights have the names of the papers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

sys.setrecursionlimit(10_000)

OracleTree = tuple[Any, list[Any]]


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


def all_nodes(tree: OracleTree, node: Callable[[Any, list[Any]], Any]) -> list[Any]:
    """What ``node(x, results of the children)`` gives for every node, children before their parent, left to right."""
    found: list[Any] = []

    def visit(tree: OracleTree) -> Any:
        x, children = tree
        result = node(x, [visit(child) for child in children])
        found.append(result)
        return result

    visit(tree)
    return found


def child_sum(tree: OracleTree, w: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Tai et al. 2015, equations 2 to 8; weights Wi Ui bi, Wo …, Wu …, Wf …"""

    def node(x: Any, children: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
        x = np.zeros(w["Wi"].shape[1]) if x is None else x
        total = sum((h for h, _ in children), np.zeros(len(w["bi"])))
        i, o = (sigmoid(w["W" + g] @ x + w["U" + g] @ total + w["b" + g]) for g in "io")
        c = i * np.tanh(w["Wu"] @ x + w["Uu"] @ total + w["bu"])
        for h, memory in children:
            c = c + sigmoid(w["Wf"] @ x + w["Uf"] @ h + w["bf"]) * memory
        return o * np.tanh(c), c

    return [h for h, _ in all_nodes(tree, node)]


def nary(tree: OracleTree, w: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Tai et al. 2015, equations 9 to 14; U of gate g and child l is w["Ug,l"], of forget gate k w["Uf,k,l"]."""

    def node(x: Any, children: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
        x = np.zeros(w["Wi"].shape[1]) if x is None else x

        def added(gate: str, which: str) -> np.ndarray:
            z = w["W" + gate] @ x + w["b" + gate]
            for place, (h, _) in enumerate(children):
                z = z + w[f"U{which},{place}"] @ h
            return z

        c = sigmoid(added("i", "i")) * np.tanh(added("u", "u"))
        for k, (_, memory) in enumerate(children):
            c = c + sigmoid(added("f", f"f,{k}")) * memory
        return sigmoid(added("o", "o")) * np.tanh(c), c

    return [h for h, _ in all_nodes(tree, node)]


def recursive(tree: OracleTree, w: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Socher et al. 2011: tanh(W [a; b] + bias)."""

    def node(x: Any, children: list[np.ndarray]) -> np.ndarray:
        return x if not children else np.tanh(w["W"] @ np.concatenate(children) + w["bias"])

    return all_nodes(tree, node)


def tensor(tree: OracleTree, w: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Socher et al. 2013: tanh([a; b]ᵀ V [a; b] + W [a; b] + bias), a slice of V for each unit."""

    def node(x: Any, children: list[np.ndarray]) -> np.ndarray:
        if not children:
            return x
        pair = np.concatenate(children)
        quadratic = np.array([sum(pair[i] * s[i, j] * pair[j] for i in range(len(pair)) for j in range(len(pair)))
                              for s in w["V"]])  # fmt: skip
        return np.tanh(quadratic + w["W"] @ pair + w["bias"])

    return all_nodes(tree, node)


def matrix_vector(tree: OracleTree, w: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Socher et al. 2012: p = tanh(W [B a; A b] + bias), P = W_M [A; B]. The x of a leaf is a vector and a matrix."""

    def node(x: Any, children: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
        if not children:
            return x
        (a, matrix_a), (b, matrix_b) = children
        p = np.tanh(w["W"] @ np.concatenate((matrix_b @ a, matrix_a @ b)) + w["bias"])
        return p, w["WM"] @ np.concatenate((matrix_a, matrix_b), axis=0)

    return [p for p, _ in all_nodes(tree, node)]
