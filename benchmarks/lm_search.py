"""The cost of search algorithms compared with greedy search on the same model, per step.

    python benchmarks/lm_search.py [--steps 60] [--rounds 7] [--threads 1] [--only lstm transformer table]

All contestants of a model alternate in one process, so that a busy machine slows all of them; a value is the median
over rounds of the process time of a step, and a ratio the median of the ratios of each round. No search may end early:
the end is forbidden until the last step. The models are untrained; only their sizes matter.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from catena.data.vocabulary import Vocabulary
from catena.lm.base import SPECIALS
from catena.lm.neural_build import build_neural
from catena.lm.neural_config import LSTMLMConfig, TransformerLMConfig
from catena.search.automaton_acceptor import AutomatonAcceptor
from catena.search.beam_search import beam
from catena.search.constrained import Constrained
from catena.search.diverse import diverse_beam
from catena.search.filters import min_p, temperature, top_k, top_p, typical
from catena.search.greedy_search import greedy
from catena.search.phrases import without_phrases
from catena.search.sampling import sample
from catena.search.stepper import Stepper
from catena.search.stochastic import stochastic_beam
from catena.search.table_stepper import TableStepper

WANTED = {"beam 8": 3.0}
"""Largest ratio to greedy search, at batch size 1."""


def vocabulary(v: int) -> Vocabulary:
    names = [f"w{i}" for i in range(v - len(SPECIALS) - 2)]
    return Vocabulary(names, counts=[1] * len(names), specials=SPECIALS)


def lstm() -> Stepper[Any]:
    """Two layers of 256 units, 10,000 words."""
    return build_neural(LSTMLMConfig(), vocabulary(10_000), [1] * 10_000).eval()


def transformer() -> Stepper[Any]:
    """The default Transformer decoder, 10,000 words."""
    return build_neural(TransformerLMConfig(), vocabulary(10_000), [1] * 10_000).eval()


def table() -> Stepper[Any]:
    """A lookup in 1,000 words: the model costs next to nothing, so this measures only the searches."""
    return TableStepper(torch.randn(1_000).log_softmax(dim=0), end=0)


MODELS: dict[str, Callable[[], Stepper[Any]]] = {"lstm": lstm, "transformer": transformer, "table": table}


def searches(stepper: Stepper[Any], steps: int) -> dict[str, Callable[[], object]]:
    """Return every search with its usual options, for one prompt."""
    least, state = steps - 1, stepper.start(1)
    draw = torch.Generator().manual_seed(1)
    shorter = Constrained(stepper, AutomatonAcceptor(without_phrases([[7, 8], [9]], stepper.v), stepper.v))
    found: dict[str, Callable[[], object]] = {"greedy": partial(greedy, stepper, state, steps, least)}
    for width in (1, 4, 8, 16):
        found[f"beam {width}"] = partial(beam, stepper, state, width, steps, least)
    found["beam 8, forbidden words"] = lambda: beam(shorter, shorter.start(1), 8, steps, least)
    found["diverse 4 x 2"] = lambda: diverse_beam(stepper, state, 8, 4, steps, min_length=least)
    found["stochastic 8"] = lambda: stochastic_beam(stepper, state, draw, 8, steps, min_length=least)
    for name, filters in {
        "sample": [],
        "temperature": [partial(temperature, t=0.8)],
        "top-k 50": [partial(top_k, k=50)],
        "nucleus 0.9": [partial(top_p, p=0.9)],
        "typical 0.9": [partial(typical, p=0.9)],
        "min-p 0.05": [partial(min_p, p=0.05)],
    }.items():
        found[name] = partial(sample, stepper, state, draw, steps, filters, least)
    return found


def measure(runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            began = time.process_time()
            run()
            if number:  # the first round warms up
                times[name].append(time.process_time() - began)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="*", choices=MODELS, default=list(MODELS))
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for name in arguments.only:
        torch.manual_seed(1)
        stepper = MODELS[name]()
        times = measure(searches(stepper, arguments.steps), arguments.rounds)
        print(f"\n{name}: {MODELS[name].__doc__} One prompt, {arguments.steps} steps, {arguments.threads} thread(s)")
        print(f"{'search':26} {'ms per step':>10} {'x greedy':>9}  at most")
        for search, found in times.items():
            ratio = statistics.median(a / b for a, b in zip(found, times["greedy"], strict=True))
            wanted = WANTED.get(search) if name != "table" else None
            mark = "" if wanted is None else f"{wanted:.1f} {'met' if ratio <= wanted else 'MISSED'}"
            print(f"{search:26} {1e3 * statistics.median(found) / arguments.steps:10.3f} {ratio:9.2f}  {mark}")


if __name__ == "__main__":
    main()
