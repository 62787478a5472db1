"""Recurrent encoder-decoders, one example, one step and one source position at a time.

Torch is only used for arithmetic and gradients; ``p`` are the parameters of a model by their names.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

Parameters = dict[str, Tensor]
State = list[Tensor]
"""h, or h and c."""


def sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


def step(cell: str, x: Tensor, state: State, p: Parameters, name: str, suffix: str = "") -> State:
    """One step of an LSTM or GRU whose weights are stored as torch stores them, gate upon gate."""
    w, u = p[f"{name}.weight_ih_l0{suffix}"], p[f"{name}.weight_hh_l0{suffix}"]
    b, c = p[f"{name}.bias_ih_l0{suffix}"], p[f"{name}.bias_hh_l0{suffix}"]
    d = u.shape[1]
    of_x = [w[i : i + d] @ x + b[i : i + d] for i in range(0, len(w), d)]
    of_h = [u[i : i + d] @ state[0] + c[i : i + d] for i in range(0, len(u), d)]
    if cell == "lstm":
        take, keep, new, give = (a + z for a, z in zip(of_x, of_h, strict=True))
        memory = sigmoid(keep) * state[1] + sigmoid(take) * torch.tanh(new)
        return [sigmoid(give) * torch.tanh(memory), memory]
    reset, update = sigmoid(of_x[0] + of_h[0]), sigmoid(of_x[1] + of_h[1])
    new = torch.tanh(of_x[2] + reset * of_h[2])
    return [(1 - update) * new + update * state[0]]


def zeros(cell: str, d: int, like: Tensor) -> State:
    return [like.new_zeros(d) for _ in range(2 if cell == "lstm" else 1)]


def run(cell: str, xs: list[Tensor], p: Parameters, name: str, suffix: str) -> list[State]:
    state, found = zeros(cell, p[f"{name}.weight_hh_l0{suffix}"].shape[1], xs[0]), []
    for x in xs:
        state = step(cell, x, state, p, name, suffix)
        found.append(state)
    return found


def encode(p: Parameters, ids: list[int], options: dict[str, Any]) -> tuple[list[Tensor], list[State]]:
    """The states of a source and the last ones of each layer."""
    xs, last = [p["source.weight"][i] * (i != 0) for i in ids], []
    if options.get("reverse"):
        xs = xs[::-1]
    for i in range(options.get("n_layers", 1)):
        name = f"encoder.layers.{i}.network"
        if options.get("encoder") == "additive":
            name, found = f"encoder.layers.{i}.input", []
            h = torch.zeros_like(p[f"{name}.bias"])
            for x in xs:
                h = h + torch.tanh(p[f"{name}.weight"] @ x + p[f"{name}.bias"])
                found.append(h)
            last.append([h, torch.zeros_like(h)])
        elif f"{name}.weight_ih_l0_reverse" in p:
            ahead = run(options["cell"], xs, p, name, "")
            back = run(options["cell"], xs[::-1], p, name, "_reverse")[::-1]
            found = [torch.cat((a[0], z[0])) for a, z in zip(ahead, back, strict=True)]
            last.append([torch.cat(pair) for pair in zip(ahead[-1], back[0], strict=True)])
        else:
            states = run(options["cell"], xs, p, name, "")
            found = [state[0] for state in states]
            last.append(states[-1])
        residual = options.get("residual") and i >= 2
        xs = [x + y for x, y in zip(xs, found, strict=True)] if residual else found
    return (xs[::-1] if options.get("reverse") else xs), last


def first_states(p: Parameters, states: list[Tensor], last: list[State], options: dict[str, Any]) -> list[State]:
    kind = options.get("bridge", "copy")
    if kind == "copy":
        return last
    mean = sum(states) / len(states)
    found = []
    for i, layer in enumerate(last):
        weight, bias = p.get(f"bridge.maps.{i}.weight"), p.get(f"bridge.maps.{i}.bias")
        if kind == "zero":
            h = torch.zeros_like(layer[0])
        else:
            h = torch.tanh(weight @ (layer[0] if kind == "map" else mean) + bias)
        found.append([h, *(torch.zeros_like(h) for _ in layer[1:])])
    return found


def score(p: Parameters, name: str, kind: str, q: Tensor, k: Tensor) -> Tensor:
    match kind:
        case "dot":
            return sum(q * k)
        case "scaled":
            return sum(q * k) / math.sqrt(len(q))
        case "bilinear":
            return sum(q * (p[f"{name}.keys.weight"] @ k))
        case "additive":
            inner = p[f"{name}.query.weight"] @ q + p[f"{name}.query.bias"] + p[f"{name}.keys.weight"] @ k
            return sum(p[f"{name}.weight"] * torch.tanh(inner))
        case "concat":
            return torch.tanh(sum(p[f"{name}.weight"] * torch.cat((q, k))) + p[f"{name}.bias"])
        case "concat_product":
            return torch.tanh(sum(p[f"{name}.weight"] * torch.cat((q, k, q * k))) + p[f"{name}.bias"])
    raise ValueError(kind)


def softmax(scores: list[Tensor]) -> list[Tensor]:
    total = sum(torch.exp(x) for x in scores)
    return [torch.exp(x) / total for x in scores]


def weigh(p: Parameters, q: Tensor, states: list[Tensor], t: int, options: dict[str, Any]) -> list[Tensor]:
    """How much of each source position is looked at, with one head."""
    scores = [score(p, "looking.scores.0", options.get("attention", "additive"), q, k) for k in states]
    kind, window = options.get("attention_kind", "soft"), options.get("window", 10)
    if kind == "local_monotonic":
        center = min(t, len(states) - 1)
        near = [j for j in range(len(states)) if abs(j - center) <= window]
        inside = dict(zip(near, softmax([scores[j] for j in near]), strict=True))
        return [inside.get(j, torch.zeros(())) for j in range(len(states))]
    if kind == "local_predictive":
        hidden = torch.tanh(p["looking.focus.hidden.weight"] @ q)
        center = len(states) * sigmoid(p["looking.focus.position.weight"][0] @ hidden)
        near = [j for j in range(len(states)) if abs(j - float(center.detach())) <= window]
        inside = dict(zip(near, softmax([scores[j] for j in near]), strict=True))
        bell = [torch.exp(-((j - center) ** 2) / (2 * (window / 2) ** 2)) for j in range(len(states))]
        return [inside[j] * bell[j] if j in inside else torch.zeros(()) for j in range(len(states))]
    return softmax(scores)


def log_probs_of(p: Parameters, vector: Tensor, forbidden: tuple[int, ...]) -> Tensor:
    scores = p["output.scores.weight"] @ vector + p["output.scores.bias"]
    allowed = [i for i in range(len(scores)) if i not in forbidden]
    total = sum(torch.exp(scores[i]) for i in allowed)
    return torch.stack(
        [scores[i] - torch.log(total) if i in allowed else scores[i] * 0 - 1e9 for i in range(len(scores))]
    )


def affine(p: Parameters, name: str, x: Tensor) -> Tensor:
    return p[f"{name}.weight"] @ x + p[f"{name}.bias"]


def layers_up(p: Parameters, x: Tensor, old: list[State], options: dict[str, Any], beside: Tensor | None = None) -> Any:
    """One step of all layers of the decoder; those above the lowest read ``beside`` too."""
    new = []
    for i in range(options.get("n_layers", 1)):
        read = x if beside is None or i == 0 else torch.cat((x, beside))
        new.append(step(options["cell"], read, old[i], p, f"decoder.stack.layers.{i}.network"))
        x = new[i][0] + x if options.get("residual") and i >= 2 else new[i][0]
    return x, new


def token_log_probs(
    p: Parameters, source: list[int], target: list[int], options: dict[str, Any], begin: int, forbidden: tuple[int, ...]
) -> list[Tensor]:
    """log p of each target token."""
    states, last = encode(p, source, options)
    layers, found, before = first_states(p, states, last, options), [], begin
    order, kind = options.get("order", "luong"), options.get("attention_kind", "soft")
    fed: Tensor | None = None
    for t, wanted in enumerate(target):
        e = p["target.weight"][before] * (before != 0)
        if options.get("attention") == "none":
            y, layers = layers_up(p, e, layers, options)
            vectors = {0: p["decoder.readout.weight"] @ y if "decoder.readout.weight" in p else y}
            weights = [torch.ones(())]
        elif order == "luong":
            if options.get("input_feeding", True):
                fed = torch.zeros(len(p["decoder.readout.bias"])) if fed is None else fed
                e = torch.cat((e, fed.to(e)))
            y, layers = layers_up(p, e, layers, options)
            weights = weigh(p, y, states, t, options)
            if kind == "marginal":
                vectors = {j: torch.tanh(affine(p, "decoder.readout", torch.cat((k, y)))) for j, k in enumerate(states)}
            else:
                context = sum(w * k for w, k in zip(weights, states, strict=True))
                fed = torch.tanh(affine(p, "decoder.readout", torch.cat((context, y))))
                vectors, weights = {0: fed}, [torch.ones(())]
        else:
            query = layers[-1][0] if order == "bahdanau" else layers[0][0]
            weights = weigh(p, query, states, t, options)
            context = sum(w * k for w, k in zip(weights, states, strict=True))
            y, layers = layers_up(p, torch.cat((e, context)), layers, options, context if order == "gnmt" else None)
            if order == "bahdanau":
                vectors = {0: torch.tanh(affine(p, "decoder.readout", torch.cat((y, context, e))))}
            else:
                vectors = {0: p["decoder.readout.weight"] @ y if "decoder.readout.weight" in p else y}
            weights = [torch.ones(())]
        mixed = sum(w * torch.exp(log_probs_of(p, vectors[j], forbidden)[wanted]) for j, w in enumerate(weights))
        found.append(torch.log(mixed))
        before = wanted
    return found
