"""CopyNet: the laws, a reference by plain loops, and names that are not in the vocabulary."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from catena.encoders.config import RecurrentConfig, TransformerConfig
from catena.errors import ConfigError, DataError
from catena.search.beam_search import beam
from catena.search.greedy_search import greedy
from catena.seq2seq.base import Source, VocabularyInfo
from catena.seq2seq.build import build_encoder_decoder
from catena.seq2seq.config import CopyNetConfig
from catena.seq2seq.copy import CopyNet
from tests.laws.seq2seq_laws import ONE_VOCABULARY, SIDES, EncoderDecoderLaws, Maker, padded

NEW = {6: 8, 7: 9}
"""Source ids whose tokens are not in the target vocabulary, and their ids after its 8."""


def source_of(rows: list[list[int]], width: int = 0, fill: int = 0) -> Source:
    ids, lengths = padded(rows, width, fill)
    copies, _ = padded([[NEW.get(id, id) for id in row] for row in rows], width, fill)
    return Source(ids, lengths, copies, n_new=2)


def network(seed: int = 4, **options: Any) -> CopyNet:
    torch.manual_seed(seed)
    small = {"d": 5, "d_embedding": 3, "encoder": RecurrentConfig(d=2), **options}
    model = build_encoder_decoder(CopyNetConfig(**small), SIDES)
    assert isinstance(model, CopyNet)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)
    return model.double().eval()


class CopyLaws(EncoderDecoderLaws):
    targets: ClassVar[list[list[int]]] = [[4, 8, 9, 3], [6, 7, 7, 4, 3], [9, 9, 3], [5, 1, 3], [4, 3]]

    def source(self, rows: list[list[int]], width: int = 0, fill: int = 0) -> Source:
        return source_of(rows, width, fill)


class TestCopyNet(CopyLaws):
    @pytest.fixture
    def make_model(self) -> Maker:
        return network


class TestCopyNetWithATransformerAndAGru(CopyLaws):
    @pytest.fixture
    def make_model(self) -> Maker:
        encoder = TransformerConfig(d=4, n_heads=2, n_layers=1, d_ff=4, dropout=0.0)
        return lambda: network(encoder=encoder, cell="gru", attention="bilinear", selective=False)


@pytest.mark.parametrize("wrong", [-1, 10])
def test_copy_ids_out_of_range_raise(wrong: int) -> None:
    model, source, (targets, lengths) = network(), source_of([[4, 6], [7]]), padded([[4, 9, 3], [3]])
    copies = torch.tensor([[4, 8], [9, wrong]])  # padding is not read
    model.token_log_probs(replace(source, copies=copies), targets, lengths)
    with pytest.raises(DataError, match=f"targets must be ids from 0 to 9, the 8 .* and 2 new .*, got {wrong}"):
        model.loss(source, torch.full_like(targets, wrong), lengths)
    with pytest.raises(DataError, match=f"the copies of a source must be ids from 0 to 9, .* got {wrong}"):
        model.stepper(replace(source, copies=copies.flip(1)))


@torch.no_grad()
def test_join_raises_if_a_source_has_too_many_new_words() -> None:
    model = network()
    few = model.stepper(replace(source_of([[4, 6]]), n_new=1))
    more = model.stepper(source_of([[7, 4, 6]]))
    with pytest.raises(ConfigError, match=r"must have ids below 9, got 9\. Call join of the stepper"):
        few.join([few.start(1), more.start(1)])
    joined = more.join([more.start(1), few.start(1)])
    assert torch.allclose(more.log_probs(joined)[1:, :9], few.log_probs(few.start(1)))
    assert (more.log_probs(joined)[1, 9] == -torch.inf).all()


# --- a reference ------------------------------------------------------------------------------------------------------


def log_probs_by_loops(model: CopyNet, source: list[int], target: list[int]) -> Tensor:
    """log p of each target id by the formulas of the paper, word by word and position by position."""
    read = source_of([source])
    states = model.encode(read).states[0]
    copies = [NEW.get(id, id) for id in source]
    mean = sum(states[j] for j in range(len(source))) / len(source)
    h, c = torch.tanh(model.first.weight @ mean + model.first.bias), torch.zeros(5, dtype=torch.float64)
    score = model.looking.scores[0]
    found, last, psi = [], SIDES.begin, [torch.tensor(-math.inf)] * len(source)
    for y in target:
        fits = torch.stack(
            [
                score.weight @ torch.tanh(score.query.weight @ h + score.query.bias + score.keys.weight @ x)
                for x in states
            ]
        ).softmax(dim=0)
        context = sum(w * x for w, x in zip(fits, states, strict=True))
        places = [j for j, k in enumerate(copies) if k == last]
        mass = sum(psi[j].exp() for j in places)
        zeta = sum((psi[j].exp() / mass * states[j] for j in places), torch.zeros(states.shape[1], dtype=torch.float64))
        x = torch.cat((model.target.weight[min(last, SIDES.v)], zeta, context))
        i, f, g, o = (model.cell.weight_x @ x + model.cell.weight_h @ h + model.cell.bias).chunk(4)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        psi = [torch.tanh(x @ model.copying.weight.T) @ h for x in states]
        words = {
            k: (model.generated.weight[k] @ h + model.generated.bias[k]).exp()
            for k in range(SIDES.v)
            if k not in SIDES.forbidden
        }
        total = sum(words.values()) + sum(p.exp() for p in psi)
        mine = sum(p.exp() for p, k in zip(psi, copies, strict=True) if k == y) + words.get(y, torch.tensor(0.0))
        found.append(torch.log(mine / total))
        last = y
    return torch.stack(found)


PAIRS = [([4, 6, 7, 6], [8, 8, 4, 9, 3]), ([5, 5], [5, 4, 5, 3]), ([1], [7, 1, 3])]


def test_copy_log_probs_and_gradients_equal_loops() -> None:
    model = network()
    targets, lengths = padded([target for _, target in PAIRS])
    found = model.token_log_probs(source_of([source for source, _ in PAIRS]), targets, lengths)
    found.sum().backward()
    fast = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    rows = [log_probs_by_loops(model, *pair) for pair in PAIRS]
    for row, wanted in zip(found, rows, strict=True):
        assert torch.allclose(row[: len(wanted)], wanted, atol=1e-10)
    torch.cat(rows).sum().backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            assert torch.allclose(fast[name], parameter.grad, atol=1e-9), name


def test_copy_probability_sums_all_positions_and_generation() -> None:
    model = network()
    stepper = model.stepper(source_of([[4, 6, 4, 5], [7, 7, 6, 1]]))
    assert stepper.v == SIDES.v + 2
    state = stepper.start(2)
    p = stepper.log_probs(state).exp()
    words, psi = model.word_scores(state.step.cell[0]).exp(), state.step.copy_scores.exp()
    total = words.sum(dim=1) + psi.sum(dim=1)
    assert p[0, 4].item() == pytest.approx(((words[0, 4] + psi[0, 0] + psi[0, 2]) / total[0]).item())
    assert p[0, 8].item() == pytest.approx((psi[0, 1] / total[0]).item())
    assert p[1, 9].item() == pytest.approx(((psi[1, 0] + psi[1, 1]) / total[1]).item())
    assert p[0, 9].item() == 0.0, "a new word of another source"
    assert stepper.log_probs(state)[0, 9] == -math.inf
    assert torch.allclose(p.sum(dim=1), torch.ones(2, dtype=torch.float64))


def test_combine_log_probs_with_distant_scores_is_exact() -> None:
    model = network()
    with torch.no_grad():
        model.copying.weight.mul_(1000)
        model.generated.bias[5] = -2000.0
    source, (targets, lengths) = source_of([[6, 4]]), padded([[5, 9, 3], [5, 8, 3]])
    twice = source.select(torch.tensor([0, 0]))
    found = model.token_log_probs(twice, targets, lengths)
    assert found[0, 0] < -1500
    assert found[0, 1] == -math.inf
    assert found[1].isfinite().all()
    stepped = model.stepper(twice).token_log_probs(targets, lengths)
    assert torch.allclose(found[1], stepped[1], atol=1e-8)
    (-found[1].sum()).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_copy_attention_is_at_the_positions_of_the_word() -> None:
    model = network()
    with torch.no_grad():
        model.generated.bias.fill_(-50.0)
    source, (targets, lengths) = source_of([[4, 6, 5]]), padded([[8, 3]])
    state = model.stepper(source).start(1)
    psi = state.step.copy_scores.softmax(dim=1)
    assert torch.allclose(model.attention(source, targets, lengths)[0][0, 0, 0], psi[0])
    with torch.no_grad():
        model.generated.bias.fill_(50.0)
    weights = model.attention(source, targets, lengths)[0]
    assert torch.allclose(weights[0, 0, 0], model.stepper(source).start(1).step.weights[0])


def test_copy_without_copies_raises() -> None:
    with pytest.raises(DataError, match=r"Source\.copies must have the target id"):
        network().stepper(Source(*padded([[4, 5]])))
    model = build_encoder_decoder(CopyNetConfig(d=5, d_embedding=3, encoder=RecurrentConfig(d=2)), ONE_VOCABULARY)
    ids, lengths = padded([[4, 5, 4], [7]])
    targets, of_targets = padded([[4, 3], [6, 3]])
    model.eval()
    found = model.token_log_probs(Source(ids, lengths), targets, of_targets)
    assert torch.equal(found, model.token_log_probs(Source(ids, lengths, ids), targets, of_targets))


def test_copy_does_not_copy_forbidden_ids() -> None:
    model = network()
    stepper = model.stepper(source_of([[2, 0, 4], [2, 2, 0]]))
    log_probs = stepper.log_probs(stepper.start(2))
    assert (log_probs[:, list(SIDES.forbidden)] == -math.inf).all()
    assert torch.allclose(log_probs.exp().sum(dim=1), torch.ones(2, dtype=torch.float64))


@torch.no_grad()
def test_copy_copies_only_real_allowed_words() -> None:
    torch.manual_seed(2)
    sides = replace(SIDES, forbidden=(2, 7))  # the last word is forbidden, and the first one is not
    settings = CopyNetConfig(d=5, d_embedding=3, encoder=RecurrentConfig(d=2))
    model = build_encoder_decoder(settings, sides).double().eval()
    assert isinstance(model, CopyNet)
    ids, lengths = padded([[4, 0, 7, 5, 6], [4], [2, 0]])
    copies = torch.tensor([[4, 0, 7, 8, 9], [4, -1, 99, 4, 0], [2, 0, 0, 8, -7]])
    stepper = model.stepper(Source(ids, lengths, copies, n_new=2))
    state = stepper.start(3)
    found = stepper.log_probs(state).exp()
    for row, length in enumerate(lengths.tolist()):
        h, states = state.step.cell[0][row], stepper.sources.states[row]
        mass = [math.exp(model.generated.weight[k] @ h + model.generated.bias[k]) for k in range(8)] + [0.0, 0.0]
        for x, k in zip(states[:length], copies[row, :length].tolist(), strict=True):
            mass[k] += math.exp(torch.tanh(model.copying.weight @ x) @ h)
        mass[2] = mass[7] = 0.0
        assert found[row].tolist() == pytest.approx([one / sum(mass) for one in mass], abs=1e-12)


# --- learning ---------------------------------------------------------------------------------------------------------

PLAIN = VocabularyInfo(n_source=8, counts=(0, 1, 0, 9, 9, 9, 9, 9), begin=2, end=3, forbidden=(0, 2))


def greetings(n: int, generator: torch.Generator) -> tuple[Source, Tensor, Tensor, list[list[int]]]:
    """ "hello NAME I am NAME" is followed by "hi, NAME the second": names are unknown words (id 1) to the source."""
    sources, copies, targets = [], [], []
    for _ in range(n):
        first = int(torch.randint(0, 2, (1,), generator=generator))
        names = [8, 9] if first else [9, 8]
        rest = [5] * int(torch.randint(0, 3, (1,), generator=generator))
        sources.append([4, 1, *rest, 6, 1])
        copies.append([4, names[0], *rest, 6, names[1]])
        targets.append([7, names[1], 4, names[0], 3])
    ids, lengths = padded(sources)
    return Source(ids, lengths, padded(copies)[0], 2), *padded(targets), targets


def test_copy_learns_to_copy_unknown_names() -> None:
    torch.manual_seed(0)
    settings = CopyNetConfig(d=24, d_embedding=12, encoder=RecurrentConfig(d=12), dropout=0.0)
    model = build_encoder_decoder(settings, PLAIN)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    generator = torch.Generator().manual_seed(1)
    for _ in range(60):
        source, targets, lengths, _ = greetings(32, generator)
        optimizer.zero_grad()
        model.loss(source, targets, lengths).backward()
        optimizer.step()
    source, _, _, wanted = greetings(50, generator)
    model.eval()
    stepper = model.stepper(source)
    for found in (greedy(stepper, stepper.start(50), 8), beam(stepper, stepper.start(50), 3, 8)):
        assert [list(listed[0].ids) for listed in found] == [target[:-1] for target in wanted]
