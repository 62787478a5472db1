"""Output layers: time and memory compared with torch's, speed in an LSTM, and the bias of sampled losses.

    python benchmarks/lm_outputs.py [exact layers lstm large bias recipes] [--threads 1] [--rounds 5]

All contestants of a case alternate in one process, so that a busy machine slows all of them; a value is the median, in
process time on one thread and in wall time on several. A ratio is the time of the first contestant divided by that of
the line. *peak* is the memory growth of a fork of the process while it computes a loss and its gradients, included.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import time
from collections.abc import Callable, Mapping

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # with a visible GPU autograd does not survive the forks that measure memory
import torch
from memory import peak
from torch import Tensor, nn
from torch.nn import functional

from catena import config as configs
from catena.data.vocabulary import Vocabulary
from catena.lm.base import SPECIALS
from catena.lm.neural_build import build_neural
from catena.outputs.base import OutputLayer
from catena.outputs.build import build_output
from catena.outputs.config import (
    AdaptiveSoftmaxConfig,
    HierarchicalConfig,
    NCEConfig,
    NegativeSamplingConfig,
    OutputConfig,
    PartitionedSoftmaxConfig,
    SampledSoftmaxConfig,
    SoftmaxConfig,
)
from catena.recipes.catalog import recipe_names, recipe_path
from catena.tasks.lm.config import LmConfig

Run = Callable[[], Tensor]


def zipf_counts(v: int) -> list[int]:
    """Return the counts of a text of a hundred million words by Zipf's law."""
    return [max(1, int(1e7 / (rank + 1))) for rank in range(v)]


def zipf_targets(v: int, n: int) -> Tensor:
    return torch.multinomial(torch.tensor(zipf_counts(v), dtype=torch.float64), n, replacement=True)


# --- measuring ----------------------------------------------------------------------------------------------


def timed(runs: Mapping[str, Run], rounds: int) -> dict[str, float]:
    """Return the median seconds of each, alternating after a warm-up round."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    found: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds + 1):
        for name, run in runs.items():
            gc.collect()
            begun = clock()
            run()
            if turn:
                found[name].append(clock() - begun)
    return {name: statistics.median(times) for name, times in found.items()}


def trained(loss: Run, inputs: list[Tensor]) -> tuple[Run, Callable[[], None]]:
    """Return a forward and backward pass, and a function that drops the gradients."""

    def clear() -> None:
        for x in inputs:
            x.grad = None

    def run() -> Tensor:
        clear()
        value = loss()
        value.backward()
        return value.detach()

    return run, clear


def table(title: str, losses: Mapping[str, tuple[Run, list[Tensor]]], rounds: int, wanted: Mapping[str, float]) -> None:
    """Print one line for each contestant."""
    print(f"\n{title}, {torch.get_num_threads()} thread(s)")
    print(f"  {'':34}{'ms':>10}{'ratio':>8}{'wanted':>8}{'peak MiB':>10}{'of first':>10}{'loss':>9}")
    parts = {name: trained(*value) for name, value in losses.items()}
    memory = {name: peak(run, clear) for name, (run, clear) in parts.items()}
    values = {name: run().item() for name, (run, _) in parts.items()}
    times = timed({name: run for name, (run, _) in parts.items()}, rounds)
    first = next(iter(times))
    for name, seconds in times.items():
        goal = f"{wanted[name]:g}x" if name in wanted else ""
        share = f"1/{memory[first] / memory[name]:.1f}" if memory[name] else ""
        print(
            f"  {name:34}{seconds * 1e3:>10.1f}{times[first] / seconds:>7.2f}x{goal:>8}{memory[name]:>10.0f}"
            f"{share:>10}{values[name]:>9.3f}",
            flush=True,
        )


# --- the exact layer ----------------------------------------------------------------------------------------


def exact(rounds: int, n: int = 2048, v: int = 50_000, d: int = 256) -> None:
    """Compare the full softmax with Linear + cross_entropy, and with torch's own chunked form if available."""
    torch.manual_seed(0)
    hidden, targets = torch.randn(n, d, requires_grad=True), zipf_targets(v, n)
    layer = build_output(SoftmaxConfig(), d, zipf_counts(v))
    weight, bias = layer.scores.weight, layer.scores.bias
    inputs = [hidden, weight, bias]
    losses: dict[str, tuple[Run, list[Tensor]]] = {
        "Linear + cross_entropy": (
            lambda: functional.cross_entropy(functional.linear(hidden, weight, bias), targets),
            inputs,
        ),
        "catena softmax": (lambda: layer.loss(hidden, targets), inputs),
    }
    if hasattr(functional, "linear_cross_entropy"):
        for name, options in (
            (
                "torch linear_cross_entropy, 256 rows",
                nn.LinearCrossEntropyOptions(batch_chunk_size=256, chunking_method=None),
            ),
            ("torch linear_cross_entropy, auto", nn.LinearCrossEntropyOptions()),
        ):
            losses[name] = (
                lambda options=options: functional.linear_cross_entropy(
                    hidden, weight, targets, linear_bias=bias, options=options
                ),
                inputs,
            )
    title = f"Exact loss and gradients, N={n} V={v} D={d} (memory wanted: 1/8)"
    table(title, losses, rounds, {"catena softmax": 1.2})


# --- every layer --------------------------------------------------------------------------------------------

LAYERS: dict[str, OutputConfig] = {
    "softmax": SoftmaxConfig(),
    "adaptive": AdaptiveSoftmaxConfig(),
    "hierarchical, huffman": HierarchicalConfig(),
    "hierarchical, balanced": HierarchicalConfig(tree="balanced"),
    "hierarchical, classes": HierarchicalConfig(tree="classes"),
    "nce, k=500 shared": NCEConfig(k=500),
    "nce, k=25 for each row": NCEConfig(k=25, shared=False),
    "negative, k=500 shared": NegativeSamplingConfig(k=500),
    "sampled, k=500": SampledSoftmaxConfig(k=500),
    "sampled, k=500 with replacement": SampledSoftmaxConfig(k=500, replacement=True),
    "partitioned, 1000 words": PartitionedSoftmaxConfig(size=1000),
}


def layers(rounds: int, n: int = 700, v: int = 50_000, d: int = 256) -> None:
    """Compare loss and gradients of every layer."""
    torch.manual_seed(0)
    hidden, targets = torch.randn(n, d, requires_grad=True), zipf_targets(v, n)
    linear = nn.Linear(d, v)
    peer = nn.AdaptiveLogSoftmaxWithLoss(d, v, [2000, 10_000])
    losses: dict[str, tuple[Run, list[Tensor]]] = {
        "Linear + cross_entropy": (
            lambda: functional.cross_entropy(linear(hidden), targets),
            [hidden, *linear.parameters()],
        ),
        "torch adaptive [2000, 10000]": (lambda: peer(hidden, targets).loss, [hidden, *peer.parameters()]),
    }
    for name, settings in LAYERS.items():
        layer = build_output(settings, d, zipf_counts(v))
        losses[name] = (
            lambda layer=layer: layer.loss(hidden, targets),
            [hidden, *layer.parameters()],
        )
    table(f"Every layer, N={n} V={v} D={d}", losses, rounds, {})


def large(rounds: int, n: int = 700, v: int = 100_000, d: int = 256) -> None:
    """Compare contrastive losses for a vocabulary where the full softmax is slow."""
    torch.manual_seed(0)
    hidden, targets = torch.randn(n, d, requires_grad=True), zipf_targets(v, n)
    kinds = ("softmax", "nce, k=500 shared", "nce, k=25 for each row", "negative, k=500 shared", "sampled, k=500")
    linear = nn.Linear(d, v)
    losses: dict[str, tuple[Run, list[Tensor]]] = {
        "Linear + cross_entropy": (
            lambda: functional.cross_entropy(linear(hidden), targets),
            [hidden, *linear.parameters()],
        )
    }
    for name in kinds:
        layer = build_output(LAYERS[name], d, zipf_counts(v))
        losses[name] = (lambda layer=layer: layer.loss(hidden, targets), [hidden, *layer.parameters()])
    wanted = {name: 3.0 for name in kinds if name.startswith("nce")}
    table(f"A large vocabulary, N={n} V={v} D={d}", losses, rounds, wanted)


# --- inside a language model --------------------------------------------------------------------------------


class Model(nn.Module):
    """Embedding, LSTM of two layers, and an output layer that computes the loss."""

    def __init__(self, v: int, d: int, output: nn.Module | None) -> None:
        super().__init__()
        self.embedding = nn.Embedding(v, d)
        self.lstm = nn.LSTM(d, d, 2)
        self.output = output

    def step(self, ids: Tensor, targets: Tensor) -> Tensor:
        states = self.lstm(self.embedding(ids))[0].flatten(0, 1)
        if self.output is None:
            return states.square().mean()
        if isinstance(self.output, OutputLayer):
            return self.output.loss(states, targets)
        if isinstance(self.output, nn.AdaptiveLogSoftmaxWithLoss):
            return self.output(states, targets).loss
        return functional.cross_entropy(self.output(states), targets)


def lstm(rounds: int, v: int = 10_000, d: int = 256, t: int = 35, b: int = 20) -> None:
    """Compare complete training steps (SGD and clipping) of a 2 x 256 LSTM."""
    torch.manual_seed(0)
    ids = zipf_targets(v, (t + 1) * b).view(t + 1, b)
    outputs: dict[str, nn.Module | None] = {
        "Linear + cross_entropy": nn.Linear(d, v),
        "torch adaptive [1000, 4000]": nn.AdaptiveLogSoftmaxWithLoss(d, v, [1000, 4000]),
        "no output layer": None,
        **{name: build_output(settings, d, zipf_counts(v)) for name, settings in LAYERS.items()},
    }

    def stepper(model: Model) -> Run:
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def run() -> Tensor:
            optimizer.zero_grad()
            loss = model.step(ids[:-1], ids[1:].flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            optimizer.step()
            return loss.detach()

        return run

    times = timed({name: stepper(Model(v, d, output)) for name, output in outputs.items()}, rounds)
    print(f"\nLSTM training, 2 x {d}, V={v}, {t} steps of {b}, {torch.get_num_threads()} thread(s)")
    print(f"  {'':34}{'tokens/s':>10}{'ratio':>8}{'wanted':>8}")
    first = next(iter(times))
    for name, seconds in times.items():
        goal = "3x" if name.startswith(("adaptive", "sampled")) else ""
        print(f"  {name:34}{t * b / seconds:>10.0f}{times[first] / seconds:>7.2f}x{goal:>8}", flush=True)


def recipes(rounds: int, v: int = 14_450, t: int = 35, b: int = 20) -> None:
    """Compare training steps of the recipes of output layers, on words by Zipf's law."""
    torch.manual_seed(0)
    n = len(SPECIALS)
    counts = zipf_counts(v - n)
    vocabulary = Vocabulary([f"w{i}" for i in range(v - n)], counts=counts, specials=SPECIALS)
    ids = (zipf_targets(v - n, (t + 1) * b) + n).view(b, t + 1)

    def stepper(name: str) -> Run:
        config = configs.load(LmConfig, recipe_path(name))
        model = build_neural(config.model, vocabulary, [1] * n + counts)
        optimizer = torch.optim.Adam(model.parameters(), config.training.learning_rate)

        def run() -> Tensor:
            optimizer.zero_grad()
            hidden = model.read(ids[:, :-1], state=model.fresh(b)).hidden
            loss = model.output.loss(hidden.flatten(0, 1), ids[:, 1:].flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), config.training.clip_norm)
            optimizer.step()
            return loss.detach()

        return run

    names = [name for name in recipe_names() if name.startswith("wikitext2-output")]
    times = timed({name: stepper(name) for name in names}, rounds)
    print(f"\nTraining steps of recipes, V={v}, {t} steps of {b}, {torch.get_num_threads()} thread(s)")
    for name, seconds in times.items():
        print(f"  {name:34}{seconds * 1e3:>10.1f} ms{times['wikitext2-output-softmax'] / seconds:>8.2f}x", flush=True)


# --- the bias of sampled losses -----------------------------------------------------------------------------


def bias(rounds: int, n: int = 64, v: int = 2000, d: int = 32, draws: int = 300) -> None:
    """Print the distance of the mean gradient of sampled losses, and of one sample, from that of the full softmax.

    The model is similar to a trained one: biases are the log of Zipf's law, scores have a standard deviation of one
    around them, and the model is normalized. Targets are sampled at another temperature, so that the gradient is not
    zero.
    """
    torch.manual_seed(0)
    hidden = torch.randn(n, d)
    weight = torch.randn(v, d) / d**0.5
    logits = hidden @ weight.T + torch.tensor(zipf_counts(v)).float().log()
    targets = torch.multinomial(torch.softmax(0.8 * logits, dim=1), 1).squeeze(1)
    full = softmax_gradient(logits, targets)
    print(f"\nBias of the gradient with respect to the scores, N={n} V={v}, means of {draws} samples")
    print(f"  {'':34}{'bias':>8}{'one sample':>10}")
    for k in (10, 100, 1000, v):
        for name, settings in (
            (f"nce, k={k}", NCEConfig(k=k)),
            (f"nce, k={k}, uniform", NCEConfig(k=k, noise="uniform")),
            (f"sampled, k={k}", SampledSoftmaxConfig(k=k)),
            (f"sampled, k={k}, unigram", SampledSoftmaxConfig(k=k, noise="unigram")),
            (f"sampled, k={k}, with replacement", SampledSoftmaxConfig(k=k, replacement=True)),
            (f"sampled, k={k}, and hits kept", SampledSoftmaxConfig(k=k, replacement=True, remove_hits=False)),
            (f"partitioned, {k} words", PartitionedSoftmaxConfig(size=k)),
        ):
            torch.manual_seed(1)
            gap, spread = compare(settings, logits, targets, full, draws)
            print(f"  {name:34}{gap:>8.3f}{spread:>10.3f}", flush=True)


def softmax_gradient(logits: Tensor, targets: Tensor) -> Tensor:
    p = torch.softmax(logits, dim=1)
    p[torch.arange(len(targets)), targets] -= 1
    return p / len(targets)


def compare(settings: OutputConfig, logits: Tensor, targets: Tensor, full: Tensor, draws: int) -> tuple[float, float]:
    """Return the distances of the mean gradient (without sampling noise) and of one sample from the full one.

    Both are fractions of the norm of the full gradient. Scores are log-probabilities, as if they were memorized.
    """
    v = logits.shape[1]
    layer = build_output(settings.model_copy(update={"bias": False}), v, zipf_counts(v))
    scores = torch.log_softmax(logits, dim=1).requires_grad_()
    with torch.no_grad():
        layer.scores.weight.copy_(torch.eye(v))
    total, square = torch.zeros_like(full), 0.0
    for _ in range(draws):
        (gradient,) = torch.autograd.grad(layer.loss(scores, targets), scores)
        total += gradient
        square += (gradient - full).square().sum().item()
    error = (total / draws - full).square().sum().item()
    spread = square / draws
    unbiased = max(0.0, (error - spread / draws) / (1 - 1 / draws))
    size = full.square().sum().item()
    return (unbiased / size) ** 0.5, (spread / size) ** 0.5


PARTS: dict[str, Callable[[int], None]] = {
    "exact": exact,
    "layers": layers,
    "lstm": lstm,
    "large": large,
    "bias": bias,
    "recipes": recipes,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in options.parts or PARTS:
        PARTS[name](options.rounds)


if __name__ == "__main__":
    main()
