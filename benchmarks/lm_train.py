"""Training an LSTM language model: Catena compared with the usual hand-written script with torch.nn.LSTM.

    python benchmarks/lm_train.py [--threads 2] [--rounds 7] [--outputs softmax adaptive sampled]

Two layers of 256 units, 10,000 words, sequences of 35 in batches of 20, SGD and clipping, the state carried. Rounds of
a few steps alternate; tokens per second are medians, ratios are medians of the ratios of each round.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

from catena.data.vocabulary import Vocabulary
from catena.encoders.config import RecurrentConfig
from catena.lm.base import SPECIALS
from catena.lm.neural_build import build_neural
from catena.lm.neural_config import LSTMLMConfig

V, D, LAYERS, B, T = 10_000, 256, 2, 20, 35
STEPS = 4


class ByHand(nn.Module):
    """The model of a tutorial."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(V, D)
        self.lstm = nn.LSTM(D, D, LAYERS, batch_first=True)
        self.output = nn.Linear(D, V)


def by_hand(batches: torch.Tensor) -> Callable[[], None]:
    """Return a function that runs a few steps of the tutorial's loop."""
    model = ByHand()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    state: list[tuple[torch.Tensor, ...] | None] = [None]

    def run() -> None:
        for ids in batches:
            hidden, after = model.lstm(model.embedding(ids[:, :-1]), state[0])
            state[0] = tuple(x.detach() for x in after)
            logits = model.output(hidden.flatten(0, 1))
            loss = nn.functional.cross_entropy(logits, ids[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    return run


def ours(batches: torch.Tensor, output: str) -> Callable[[], None]:
    """Return a function that runs the same steps with Catena's model, optimizer and clipping."""
    from catena.training.config import TrainingConfig
    from catena.training.optimize import GradientUpdater

    vocabulary = Vocabulary([f"w{i}" for i in range(V - 4)], specials=SPECIALS)
    encoder = RecurrentConfig(cell="lstm", d=D, n_layers=LAYERS, bidirectional=False)
    settings = LSTMLMConfig(
        embedding={"d": D}, encoder=encoder, output={"kind": output}, tied=False, dropout_input=0.0, dropout_output=0.0
    )
    counts = [max(1, int(1e6 / (i + 1))) for i in range(V)]
    model = build_neural(settings, vocabulary, counts).train()
    updater = GradientUpdater(TrainingConfig(optimizer="sgd", clip_norm=1.0), model, torch.device("cpu"))
    state = [model.fresh(B)]

    def run() -> None:
        for ids in batches:
            read = model.read(ids[:, :-1], state=state[0])
            state[0] = model.encoder.detach(read.state)
            updater.backward(model.output.loss(read.hidden.flatten(0, 1), ids[:, 1:].flatten()))
            updater.step(0.1)

    return run


def timed(run: Callable[[], None]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--outputs", nargs="+", default=["softmax", "adaptive", "sampled"])
    flags = parser.parse_args()
    torch.set_num_threads(flags.threads)
    torch.manual_seed(0)
    # Word frequencies as in a text: proportional to 1 / rank.
    ranks = torch.distributions.Uniform(0.0, 1.0).sample((STEPS, B, T + 1))
    batches = (V**ranks - 1).long().clamp(4, V - 1)
    runs = {"torch.nn.LSTM by hand": by_hand(batches)}
    runs |= {f"Catena, {output}": ours(batches, output) for output in flags.outputs}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(flags.rounds):
        for name, run in runs.items():
            times[name].append(timed(run))
    first = times["torch.nn.LSTM by hand"]
    for name, seconds in times.items():
        speed = STEPS * B * T / statistics.median(seconds)
        ratio = statistics.median(a / b for a, b in zip(first, seconds, strict=True))
        print(f"{name:24} {speed:8,.0f} tokens/s   {ratio:.2f} times")


if __name__ == "__main__":
    main()
