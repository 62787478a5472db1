"""The neural checklist model by loops over plain numbers: Kiddon, Zettlemoyer & Choi (2016), section 3."""

from __future__ import annotations

import math

Vector = list[float]
Matrix = list[Vector]


def times(matrix: Matrix, vector: Vector) -> Vector:
    return [math.fsum(w * x for w, x in zip(row, vector, strict=True)) for row in matrix]


def total(vectors: Matrix, size: int) -> Vector:
    return [math.fsum(vector[k] for vector in vectors) for k in range(size)]


def softmax(scores: Vector) -> Vector:
    weights = [math.exp(score) for score in scores]
    return [weight / math.fsum(weights) for weight in weights]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def checklist_log_probs(
    weights: dict[str, Matrix],
    biases: dict[str, Vector],
    words: Matrix,
    goal: list[int],
    items: list[list[int]],
    read: list[int],
    targets: list[int],
    forbidden: set[int],
    sharpness: tuple[float, float],
    gain: float,
    probabilities: bool = False,
) -> tuple[Vector, Matrix, Matrix, Matrix, Matrix]:
    """The log-probability of each target after the ids that are read before it; and of each step the switch, the
    weights of new and of used items, and the list.

    ``weights`` has W and U by gate (r, z, s, q, h: "Wr", "Ur", ...), and Y, Z, P, S, F (for the first state), O.
    """
    e = len(words[0])
    g = total([words[i] for i in goal], e)
    rows = [total([words[i] for i in item], e) for item in items]
    beta, gamma = sharpness
    h = [math.tanh(x + b) for x, b in zip(times(weights["F"], g), biases["F"], strict=True)]
    ticked = [0.0] * len(items)
    found, switches, news, useds, lists = [], [], [], [], []
    for id, target in zip(read, targets, strict=True):
        gates = {}
        for name in "rzsq":
            parts = zip(times(weights["W" + name], words[id]), times(weights["U" + name], h), biases[name], strict=True)
            gates[name] = [sigmoid(a + b + c) for a, b, c in parts]
        free = total([[(1 - a) * x for x in row] for a, row in zip(ticked, rows, strict=True)], e)
        wx, uh = times(weights["Wh"], words[id]), times(weights["Uh"], h)
        yg, ze = times(weights["Y"], g), times(weights["Z"], free)
        for k in range(len(h)):
            inside = wx[k] + biases["h"][k] + gates["r"][k] * uh[k] + gates["s"][k] * yg[k] + gates["q"][k] * ze[k]
            gates["h"] = [*gates.get("h", []), math.tanh(inside)]
        h = [(1 - z) * old + z * new for z, old, new in zip(gates["z"], h, gates["h"], strict=True)]
        projected = times(weights["P"], h)
        switch = softmax([beta * x for x in times(weights["S"], h)])
        if not items:
            switch = [1.0, 0.0, 0.0]
        scores = times(rows, projected)
        new = softmax([gamma * (1 - a) * x for a, x in zip(ticked, scores, strict=True)])
        used = softmax([gamma * a * x for a, x in zip(ticked, scores, strict=True)])
        out = [switch[0] * x for x in projected]
        for weight_new, weight_used, row in zip(new, used, rows, strict=True):
            share = switch[1] * weight_new + switch[2] * weight_used
            out = [x + gain * share * y for x, y in zip(out, row, strict=True)]
        ticked = [min(1.0, a + switch[1] * weight) for a, weight in zip(ticked, new, strict=True)]
        out = projected if probabilities else out
        logits = [x + b for x, b in zip(times(weights["O"], out), biases["O"], strict=True)]
        mass = math.fsum(math.exp(x) for i, x in enumerate(logits) if i not in forbidden)
        p = math.exp(logits[target]) / mass if target not in forbidden else 0.0
        if probabilities:
            p *= switch[0]
            for i, item in enumerate(items):
                inside = softmax(times([words[id] for id in item], projected))
                share = switch[1] * new[i] + switch[2] * used[i]
                p += share * math.fsum(b for b, id in zip(inside, item, strict=True) if id == target)
        found.append(math.log(p))
        switches.append(switch)
        news.append(new)
        useds.append(used)
        lists.append(ticked)
    return found, switches, news, useds, lists
