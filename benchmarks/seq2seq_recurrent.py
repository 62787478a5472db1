"""Training recurrent encoder-decoders: Catena compared with a plain torch script with attention.

    python benchmarks/seq2seq_recurrent.py [--threads 1] [--rounds 7] [--v 8000] [--d 256] [--batch 64]

A step is the loss and its gradients over a batch of random pairs of 9 to 15 tokens, packed as in a tutorial. The script
runs ``nn.LSTM`` over the whole target if the order allows it (Luong's without input feeding), and ``nn.LSTMCell`` or
``nn.GRUCell`` step by step otherwise, with the keys of the attention projected once. Both have the same weights, and
their losses must agree before anything is timed. Rounds alternate; times are medians, ratios medians of the ratios of
each round.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from catena.seq2seq.base import Source, VocabularyInfo
from catena.seq2seq.build import build_encoder_decoder
from catena.seq2seq.config import RecurrentSeq2SeqConfig

ORDERS: dict[str, dict[str, Any]] = {
    "LSTM, bilinear, luong, no input feeding": {"attention": "bilinear", "input_feeding": False},
    "LSTM, bilinear, luong, input feeding": {"attention": "bilinear"},
    "GRU, additive, bahdanau": {"cell": "gru", "attention": "additive", "order": "bahdanau"},
}


class Script(nn.Module):
    """A tutorial-style encoder-decoder with the weights of one of ours."""

    def __init__(self, model: Any, options: dict[str, Any]) -> None:
        super().__init__()
        self.options, lowest = options, model.decoder.stack[0]
        self.source = nn.Embedding.from_pretrained(model.source.weight.clone(), freeze=False, padding_idx=0)
        self.target = nn.Embedding.from_pretrained(model.target.weight.clone(), freeze=False, padding_idx=0)
        own = model.encoder.layers[0].network
        self.encoder = type(own)(own.input_size, own.hidden_size, bidirectional=True, batch_first=True)
        self.encoder.load_state_dict(own.state_dict())
        if options.get("input_feeding", True):
            cell = nn.GRUCell if "cell" in options else nn.LSTMCell
            self.cell = cell(lowest.d_in, lowest.d)
            for name, weights in lowest.network.named_parameters():
                getattr(self.cell, name.removesuffix("_l0")).data.copy_(weights)
        else:
            self.decoder = nn.LSTM(lowest.d_in, lowest.d, batch_first=True)
            self.decoder.load_state_dict(lowest.network.state_dict())
        self.score, self.readout = model.looking.scores[0], model.decoder.readout
        self.output = nn.Linear(model.output.d_in, model.output.v)
        self.output.weight.data.copy_(model.output.scores.weight)
        self.output.bias.data.copy_(model.output.scores.effective_bias)

    def forward(self, source: Tensor, lengths: Tensor, before: Tensor, targets: Tensor) -> Tensor:
        packed = pack_padded_sequence(self.source(source), lengths, batch_first=True, enforce_sorted=False)
        packed_states, last = self.encoder(packed)
        states, _ = pad_packed_sequence(packed_states, batch_first=True)
        mask = torch.arange(states.shape[1]) < lengths[:, None]
        first = [torch.cat((h[0], h[1]), -1) for h in (last if isinstance(last, tuple) else (last,))]
        read = {"luong": self._luong, "bahdanau": self._bahdanau}[self.options.get("order", "luong")]
        if not self.options.get("input_feeding", True):
            read = self._whole
        hidden = read(self.target(before), states, mask, first)
        return F.cross_entropy(self.output(hidden).flatten(0, 1), targets.flatten(), ignore_index=0)

    def _whole(self, y: Tensor, states: Tensor, mask: Tensor, first: list[Tensor]) -> Tensor:
        hidden, _ = self.decoder(y, (first[0][None], first[1][None]))
        scores = hidden @ self.score.keys(states).transpose(1, 2)
        weights = scores.masked_fill(~mask[:, None], -torch.inf).softmax(-1)
        return torch.tanh(self.readout(torch.cat((weights @ states, hidden), -1)))

    def _luong(self, y: Tensor, states: Tensor, mask: Tensor, first: list[Tensor]) -> Tensor:
        keys, (h, c), found = self.score.keys(states), first, []
        fed = y.new_zeros(len(y), self.readout.out_features)
        for t in range(y.shape[1]):
            h, c = self.cell(torch.cat((y[:, t], fed), -1), (h, c))
            scores = torch.bmm(keys, h[:, :, None])[:, :, 0]
            weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
            context = torch.bmm(weights[:, None], states)[:, 0]
            fed = torch.tanh(self.readout(torch.cat((context, h), -1)))
            found.append(fed)
        return torch.stack(found, 1)

    def _bahdanau(self, y: Tensor, states: Tensor, mask: Tensor, first: list[Tensor]) -> Tensor:
        keys, (h,), found, contexts = self.score.keys(states), first, [], []
        for t in range(y.shape[1]):
            scores = torch.tanh(self.score.query(h)[:, None] + keys) @ self.score.weight
            weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
            contexts.append(torch.bmm(weights[:, None], states)[:, 0])
            h = self.cell(torch.cat((y[:, t], contexts[-1]), -1), h)
            found.append(h)
        joined = torch.cat((torch.stack(found, 1), torch.stack(contexts, 1), y), -1)
        return torch.tanh(self.readout(joined))


def padded(n: int, v: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    lengths = torch.randint(9, 16, (n,), generator=generator)
    lengths[0] = 15
    ids = torch.randint(4, v, (n, 15), generator=generator)
    return ids.masked_fill(torch.arange(15) >= lengths[:, None], 0), lengths


def seconds(step: Callable[[], Tensor], parameters: list[nn.Parameter]) -> float:
    for parameter in parameters:
        parameter.grad = None
    began = time.process_time()
    step().backward()
    return time.process_time() - began


def measure(name: str, options: dict[str, Any], v: int, d: int, batch: int, rounds: int) -> str:
    torch.manual_seed(1)
    sides = VocabularyInfo(n_source=v, counts=[0, *[1] * (v - 1)], begin=2, end=3, forbidden=(0, 2))
    settings = RecurrentSeq2SeqConfig(d=d, d_embedding=d, tied=False, dropout=0.0, **options)
    model = build_encoder_decoder(settings, sides)
    script = Script(model, options)
    generator = torch.Generator().manual_seed(2)
    (source, source_lengths), (targets, lengths) = padded(batch, v, generator), padded(batch, v, generator)
    before = torch.cat((torch.full((batch, 1), 2), targets[:, :-1]), dim=1)
    steps = (
        lambda: model.loss(Source(source, source_lengths), targets, lengths),
        lambda: script(source, source_lengths, before, targets),
    )
    losses = [step().item() for step in steps]
    assert abs(losses[0] - losses[1]) < 1e-4, losses
    pairs = []
    for _ in range(rounds + 1):
        models = (model, script)
        pairs.append([seconds(step, list(one.parameters())) for step, one in zip(steps, models, strict=True)])
    ours, theirs = (statistics.median(column) for column in zip(*pairs[1:], strict=True))
    ratio = statistics.median(b / a for a, b in pairs[1:])
    tokens = int(lengths.sum())
    return f"{name:42} {tokens / ours:9.0f} tokens/s, the script {tokens / theirs:9.0f}: {ratio:.2f} times as fast"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--v", type=int, default=8000)
    parser.add_argument("--d", type=int, default=256)
    parser.add_argument("--batch", type=int, default=64)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name, order in ORDERS.items():
        print(measure(name, order, options.v, options.d, options.batch, options.rounds))


if __name__ == "__main__":
    main()
