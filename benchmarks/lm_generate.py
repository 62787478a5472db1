"""Generation with cached states: Catena compared with transformers' ``generate`` (same weights, greedy, CPU).

    python benchmarks/lm_generate.py [--threads 2] [--rounds 5] [--tokens 128] [--batches 1 16]

Needs ``transformers`` (see requirements-peers.txt). The model is GPT-2's architecture with 4 layers, 256 units, 4 heads
and a vocabulary of 1,000: the weights of transformers' model are copied into Catena's, and both must generate the same
tokens. Rounds alternate. The output has the medians and their ratio, and the ratio of the least times, which a busy
machine disturbs less; then the time for twice as many tokens, which is twice as long if the cost of a step does not
depend on the length (apart from attention); and the time of torch's matrix products of a step, a lower bound for any
implementation that uses them. transformers uses its default, a growing cache; its static cache is slower on a CPU.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from catena.data.vocabulary import Vocabulary
from catena.encoders.config import TransformerConfig
from catena.lm.base import SPECIALS
from catena.lm.neural import NeuralLanguageModel
from catena.lm.neural_build import build_neural
from catena.lm.neural_config import TransformerLMConfig
from catena.search.greedy_search import greedy

END = 3
WORDS, D, LAYERS, HEADS, LONGEST = 1000, 256, 4, 4, 1024


def ours() -> NeuralLanguageModel:
    """Return Catena's model with GPT-2's architecture."""
    vocabulary = Vocabulary([f"w{i}" for i in range(WORDS - 4)], specials=SPECIALS)
    encoder = TransformerConfig(
        d=D, n_heads=HEADS, n_layers=LAYERS, d_ff=4 * D, positions="learned", max_length=LONGEST, causal=True,
        activation="gelu", dropout=0.0,
    )  # fmt: skip
    settings = TransformerLMConfig(embedding={"d": D}, encoder=encoder, output={"kind": "softmax", "bias": False})
    return build_neural(settings, vocabulary, [1] * WORDS).eval()


def theirs() -> torch.nn.Module:
    """Return transformers' model, with exact GELU as in Catena's."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=WORDS, n_positions=LONGEST, n_embd=D, n_layer=LAYERS, n_head=HEADS, activation_function="gelu",
        bos_token_id=3, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    model = GPT2LMHeadModel(config).eval()
    model.transformer.wte.weight.data.mul_(5.0)  # so that the best next token is clear
    model.transformer.wte.weight.data[END] = 0.0  # and is never the end
    return model


@torch.no_grad()
def copy_weights(model: NeuralLanguageModel, peer: torch.nn.Module) -> None:
    """Copy the weights of transformers' model into Catena's."""
    body = peer.transformer
    model.embedding.weight.copy_(body.wte.weight)
    encoder = model.encoder
    encoder.positions.weight.copy_(body.wpe.weight)
    encoder.leave.load_state_dict(body.ln_f.state_dict())
    for layer, block in zip(encoder.layers, body.h, strict=True):
        q, k, v = block.attn.c_attn.weight.t().chunk(3)
        biases = block.attn.c_attn.bias.chunk(3)
        for part, weight, bias in zip(("query", "keys", "values"), (q, k, v), biases, strict=True):
            getattr(layer.attention, part).weight.copy_(weight)
            getattr(layer.attention, part).bias.copy_(bias)
        pairs = [
            (layer.attention.output, block.attn.c_proj),
            (layer.feed[0], block.mlp.c_fc),
            (layer.feed[3], block.mlp.c_proj),
        ]
        for linear, conv in pairs:
            linear.weight.copy_(conv.weight.t())
            linear.bias.copy_(conv.bias)
        layer.attention_norm.load_state_dict(block.ln_1.state_dict())
        layer.feed_norm.load_state_dict(block.ln_2.state_dict())


def write_ours(model: NeuralLanguageModel, prompt: torch.Tensor, n: int) -> torch.Tensor:
    """Run Catena's greedy search, as in ``catena generate``."""
    with torch.inference_mode():
        state = model._read_on(model.fresh(len(prompt)), prompt)  # transformers has no begin token
        found = greedy(model, state, n)
    return torch.tensor([row[0].ids for row in found])


def write_theirs(peer: torch.nn.Module, prompt: torch.Tensor, n: int) -> torch.Tensor:
    """Run transformers' greedy search."""
    with torch.inference_mode():
        found = peer.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=n, do_sample=False)
    return found[:, prompt.shape[1] :]


def products(b: int, n: int) -> torch.Tensor:
    """Run the matrix products of ``n`` steps in torch, with weights in its fastest layout."""
    shapes = [(D, 3 * D), (D, D), (D, 4 * D), (4 * D, D)] * LAYERS + [(D, WORDS)]
    with torch.inference_mode():
        given = [(torch.zeros(b, k), torch.zeros(k, m), torch.zeros(m)) for k, m in shapes]
        for _ in range(n):
            for x, weight, bias in given:
                last = torch.addmm(bias, x, weight)
    return last


def timed(run: Callable[[], torch.Tensor]) -> float:
    """Return the process time with one thread, which other programs disturb less, otherwise the wall time."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    began = clock()
    run()
    return clock() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16])
    flags = parser.parse_args()
    torch.set_num_threads(flags.threads)
    model, peer = ours(), theirs()
    copy_weights(model, peer)
    for b in flags.batches:
        prompt = torch.randint(4, WORDS, (b, 8), generator=torch.Generator().manual_seed(1))
        n = flags.tokens
        same = (write_ours(model, prompt, n) == write_theirs(peer, prompt, n)).float().mean()
        mine, other, twice, floor = [], [], [], []
        for _ in range(flags.rounds):
            floor.append(timed(lambda b=b, n=n: products(b, n)))
            mine.append(timed(lambda prompt=prompt, n=n: write_ours(model, prompt, n)))
            other.append(timed(lambda prompt=prompt, n=n: write_theirs(peer, prompt, n)))
            twice.append(timed(lambda prompt=prompt, n=n: write_ours(model, prompt, 2 * n)))
        a, z, double, floor_time = map(statistics.median, (mine, other, twice, floor))
        ratios = [y / x for x, y in zip(mine, other, strict=True)]
        print(
            f"batch {b}: Catena {1e3 * a / n:.2f} ms per step, transformers {1e3 * z / n:.2f} ms, "
            f"{statistics.median(ratios):.2f} times ({min(ratios):.2f} to {max(ratios):.2f}), by least times "
            f"{min(other) / min(mine):.2f}; equal tokens {100 * same:.1f} %; twice the tokens take {double / a:.2f} "
            f"times as long; torch's products {1e3 * floor_time / n:.2f} ms"
        )


if __name__ == "__main__":
    main()
