"""The checklist model compared to plain loops; its mentions, its search and its training."""

from __future__ import annotations

import math
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from catena.errors import ConfigError
from catena.search.beam_search import beam
from catena.search.greedy_search import greedy
from catena.seq2seq.base import Source, VocabularyInfo
from catena.seq2seq.checklist import ChecklistModel
from catena.seq2seq.checklist_config import ChecklistConfig
from catena.seq2seq.checklist_state import LM, NEW, USED, Agenda
from tests.laws.seq2seq_laws import ONE_VOCABULARY, EncoderDecoderLaws
from tests.oracle.checklist import checklist_log_probs

PAD, UNK, BEGIN, END, SEPARATOR = range(5)
V = 12
SIDES = VocabularyInfo(V, [0, 1, 0, 3, 0, *range(1, V - 4)], BEGIN, END, (PAD, BEGIN, SEPARATOR))

NAMES = [-1, -1, -1, 3, -1, *range(5, V)]


def model(**options: object) -> ChecklistModel:
    torch.manual_seed(3)
    settings = ChecklistConfig.model_validate({"d_embedding": 3, "d": 4, "scale": 1.0, "mixture": "vectors", **options})
    return ChecklistModel(settings, SIDES, SEPARATOR, NAMES).double().eval()


def source_of(*agendas: tuple[list[int], list[list[int]]]) -> Source:
    rows = [[*goal, *(id for item in items for id in (SEPARATOR, *item))] for goal, items in agendas]
    width = max(map(len, rows))
    ids = torch.tensor([row + [PAD] * (width - len(row)) for row in rows])
    return Source(ids, torch.tensor([len(row) for row in rows]))


AGENDAS: list[tuple[list[int], list[list[int]]]] = [
    ([5, 6], [[7], [8, 9], [10]]),
    ([11], [[5, 6]]),
    ([UNK], []),
]
TARGETS = torch.tensor([[7, 5, 9, 8, 7, END], [5, 5, 6, 11, END, PAD], [9, END, PAD, PAD, PAD, PAD]])
LENGTHS = torch.tensor([6, 5, 2])


def looped(net: ChecklistModel, row: int) -> tuple[list, list, list, list, list]:
    d, gates = net.settings.d, "rzsqh"
    weights, biases = {}, {}
    for i, name in enumerate(gates):
        part = slice(i * d, (i + 1) * d)
        weights["W" + name] = net.read.weight[part].tolist()
        weights["U" + name] = net.recur.weight[part].tolist()
        biases[name] = net.read.bias[part].tolist()
    layers = {"Y": net.goal, "Z": net.term, "P": net.project, "F": net.first}
    weights |= {name: layer.weight.tolist() for name, layer in layers.items()}
    weights |= {"S": net.recur.weight[5 * d :].tolist(), "O": net.output.scores.weight.tolist()}
    biases |= {"F": net.first.bias.tolist(), "O": net.output.scores.bias.tolist()}
    goal, items = AGENDAS[row]
    targets = TARGETS[row, : LENGTHS[row]].tolist()
    return checklist_log_probs(
        weights,
        biases,
        net.embedding.weight.tolist(),
        goal,
        items,
        [BEGIN, *targets[:-1]],
        targets,
        set(SIDES.forbidden),
        (net.settings.switch_sharpness, net.settings.item_sharpness),
        net.gain.item(),
        net.settings.mixture == "probabilities",
    )


class TestAgainstLoops:
    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"tied": False, "item_sharpness": 3.0, "switch_sharpness": 2.0},
            {"mixture": "probabilities"},
        ],
    )
    def test_checklist_steps_equal_plain_loops(self, options: dict[str, object]) -> None:
        net = model(**options)
        with torch.no_grad():
            found = net.token_log_probs(source_of(*AGENDAS), TARGETS, LENGTHS)
            checked = net.checked(source_of(*AGENDAS), TARGETS)
        for row, length in enumerate(LENGTHS.tolist()):
            log_probs, switch, new, used, ticked = looped(net, row)
            n = len(AGENDAS[row][1])
            assert found[row, :length].tolist() == pytest.approx(log_probs, abs=1e-10)
            assert (found[row, length:] == 0).all()
            for name, wanted in {"switch": switch, "new": new, "used": used, "ticked": ticked}.items():
                here = getattr(checked, name)[row, :length]
                here = here if name == "switch" else here[:, :n]
                assert torch.allclose(here, torch.tensor(wanted, dtype=here.dtype).view(here.shape), atol=1e-10), name

    def test_checked_items_never_decrease_and_stay_at_most_one(self) -> None:
        net = model(item_sharpness=30.0)
        with torch.no_grad():
            net.recur.weight[-3 + NEW] = 50.0 * torch.sign(torch.randn(4, dtype=torch.float64))
            ticked = net.checked(source_of(*AGENDAS), TARGETS.repeat(1, 5)).ticked
        assert ticked.max() <= 1
        assert (ticked.diff(dim=1) >= 0).all()
        assert ticked[2].eq(0).all()


class TestGradients:
    @pytest.mark.parametrize(("mixture", "reader"), [("vectors", "none"), ("probabilities", "attention")])
    def test_checklist_gradients_equal_finite_differences(self, mixture: str, reader: str) -> None:
        net = model(supervision=0.7, completion=0.3, mixture=mixture, reader=reader)
        source = source_of(*AGENDAS[:2])

        def loss(*values: Tensor) -> Tensor:
            named = dict(zip(dict(net.named_parameters()), values, strict=True))
            return torch.func.functional_call(net, named, (source, TARGETS[:2], LENGTHS[:2]))

        net.forward = net.loss  # type: ignore[method-assign]
        parameters = [p.detach().clone().requires_grad_() for p in net.parameters()]
        assert torch.autograd.gradcheck(loss, parameters, atol=1e-6, fast_mode=True)

    def test_checklist_agenda_without_items_gives_no_nan(self) -> None:
        net = model()
        net.loss(source_of(AGENDAS[2]), TARGETS[2:, :2], LENGTHS[2:]).backward()
        assert all(torch.isfinite(p.grad).all() for p in net.parameters() if p.grad is not None)

    def test_checklist_source_dropout_applies_only_in_training(self) -> None:
        net = model(dropout_source=0.9)
        clean = net.encode(source_of(*AGENDAS))
        dropped = net.train().encode(source_of(*AGENDAS))
        assert not torch.equal(Agenda(*dropped.more).goal, Agenda(*clean.more).goal)
        assert torch.equal(dropped.states, clean.states)

    def test_checklist_agenda_dropout_applies_only_in_training(self) -> None:
        net = model(dropout_source=0.5)
        clean = Agenda(*net.encode(source_of(*AGENDAS)).more)
        torch.manual_seed(0)
        dropped = [Agenda(*net.train().encode(source_of(*AGENDAS)).more) for _ in range(20)]
        for name in ("goal", "terms"):
            zero = torch.stack([getattr(one, name) == 0 for one in dropped]).double().mean(dim=0)
            said = getattr(clean, name) != 0
            # Half of all values, and a few more where every word of a sum is dropped.
            assert 0.3 < zero[said].mean() < 0.7, name


class TestMentions:
    def test_mentions_distinguishes_first_and_repeated(self) -> None:
        first, again = model().mentions(source_of(*AGENDAS), TARGETS)
        told = [(row, t, item) for row, t, item in first.nonzero().tolist()]
        assert told == [(0, 0, 0), (0, 2, 1), (1, 0, 0)]
        assert again.nonzero().tolist() == [[0, 3, 1], [0, 4, 0], [1, 1, 0], [1, 2, 0]]

    def test_mentions_ignores_words_without_a_name(self) -> None:
        source = source_of(([5], [[UNK, 7]]))
        first, _ = model().mentions(source, torch.tensor([[UNK, 7, END]]))
        assert first.nonzero().tolist() == [[0, 1, 0]]

    def test_mentions_of_two_words_with_one_name(self) -> None:
        net = ChecklistModel(ChecklistConfig(d=4), SIDES, SEPARATOR, [*NAMES[:-1], NAMES[7]])
        first, again = net.mentions(source_of(([5], [[7], [8]])), torch.tensor([[11, 8, 7, END]]))
        assert first.nonzero().tolist() == [[0, 0, 0], [0, 1, 1]]
        assert again.nonzero().tolist() == [[0, 2, 0]]

    def test_switch_loss_is_the_mean_over_gold_switches_and_items(self) -> None:
        net = model()
        source, real = source_of(*AGENDAS[:1]), torch.ones(1, 6, dtype=torch.bool)
        with torch.no_grad():
            checked = net.checked(source, TARGETS[:1])
        ways = [(NEW, 0), (LM, None), (NEW, 1), (USED, 1), (USED, 0), (LM, None)]
        wanted = 0.0
        for t, (way, item) in enumerate(ways):
            wanted -= math.log(checked.switch[0, t, way])
            if item is not None:
                wanted -= math.log((checked.new if way == NEW else checked.used)[0, t, item])
        assert net.switch_loss(source, TARGETS[:1], real, checked).item() == pytest.approx(wanted / 6)

    def test_checklist_loss_is_the_sum_of_its_terms(self) -> None:
        rows = source_of(*AGENDAS), TARGETS, LENGTHS
        plain = model(supervision=0.0, completion=0.0)
        nats = -plain.token_log_probs(*rows).sum() / LENGTHS.sum()
        assert plain.loss(*rows).item() == pytest.approx(nats.item())
        ticked = plain.checked(rows[0], TARGETS).ticked
        open_ = [1 - ticked[0, 5].mean(), 1 - ticked[1, 4, 0]]
        wanted = nats + 0.5 * sum(open_) / 2
        assert model(supervision=0.0, completion=0.5).loss(*rows).item() == pytest.approx(wanted.item())


class TestReader:
    """With a reader, compared to a step written out from the formulas."""

    def test_reader_context_is_added_and_read_by_the_next_step(self) -> None:
        net = model(reader="attention", tied=False)
        source, row = source_of(*AGENDAS), 0
        with torch.no_grad():
            agenda = Agenda(*net.encode(source).more)
            read = net.read(net.embedding(torch.full((3, 1), BEGIN))[:, 0])
            first = net.step(read, net.started(agenda), agenda)
            n = int(source.lengths[row])
            states = net.reader.encoder(net.embedding(source.ids[row : row + 1, :n]), source.lengths[row : row + 1])[0]
            query = net.recur.weight[-net.reader.d_query :] @ first.h[row]
            scores = [(net.reader.weight.weight[0] * torch.tanh(query + net.reader.keys(m))).sum() for m in states]
            total = sum(math.exp(s) for s in scores)
            context = sum(math.exp(s) / total * m for s, m in zip(scores, states, strict=True))
            said = torch.tanh(net.project(first.h[row]) + net.say(context))
            second = net.step(read, first, agenda)
            deaf = first._replace(said=torch.zeros_like(first.said))
            told = net.step(read + net.feed(said), deaf, agenda)
            items = agenda.items[row] @ net.project(first.h[row])
            chosen = [items[0] + scores[3], items[1] + torch.logaddexp(scores[5], scores[6]), items[2] + scores[8]]
        assert torch.allclose(first.new[row], torch.softmax(torch.stack(chosen), dim=0), atol=1e-12)
        assert torch.allclose(net.said(first)[row], said, atol=1e-12)
        assert torch.allclose(second.h[row], told.h[row], atol=1e-12)
        assert not torch.allclose(second.h[row], net.step(read, deaf, agenda).h[row], atol=1e-3)

    def test_reader_text_starts_from_the_last_states(self) -> None:
        net = model(reader="attention")
        with torch.no_grad():
            begin = Agenda(*net.encode(source_of(*AGENDAS)).more).begin
            for row, agenda in enumerate(AGENDAS):
                alone = source_of(agenda)
                states = net.reader.encoder(net.embedding(alone.ids), alone.lengths)[0]
                assert torch.allclose(begin[row], torch.cat((states[-1, :2], states[0, 2:])), atol=1e-12)

    def test_reader_with_odd_d_raises(self) -> None:
        with pytest.raises(ValueError, match=r"d must be even for reader = 'attention', .* got 5. Use 6"):
            ChecklistConfig(d=5, reader="attention")

    def test_reader_parameters_get_gradients(self) -> None:
        net = model(reader="attention")
        net.loss(source_of(*AGENDAS), TARGETS, LENGTHS).backward()
        assert all(
            p.grad is not None and torch.isfinite(p.grad).all() and p.grad.any() for p in net.reader.parameters()
        )


class TestLaws(EncoderDecoderLaws):
    sources: ClassVar[list[list[int]]] = [[4, 7, 5, 7, 6], [1, 7, 4], [7, 6], [5, 7, 5, 6, 7, 4, 1], [6, 4, 7, 5]]
    sums_to_one = False

    reader: ClassVar[str] = "none"
    mixture: ClassVar[str] = "vectors"

    @pytest.fixture
    def make_model(self):  # type: ignore[no-untyped-def]
        def make() -> ChecklistModel:
            torch.manual_seed(3)
            options = {"d_embedding": 3, "d": 4, "scale": 1.0, "supervision": 0.0, "completion": 0.0}
            options |= {"reader": self.reader, "mixture": self.mixture}
            return ChecklistModel(ChecklistConfig.model_validate(options), ONE_VOCABULARY, 7).double().eval()

        return make


class TestLawsWithAReader(TestLaws):
    reader: ClassVar[str] = "attention"


class TestLawsOfMixedProbabilities(TestLaws):
    mixture: ClassVar[str] = "probabilities"


class TestSearch:
    def test_checklist_steps_equal_teacher_forcing(self) -> None:
        net, source = model(), source_of(*AGENDAS)
        found = net.stepper(source).token_log_probs(TARGETS, LENGTHS)
        assert torch.allclose(found, net.token_log_probs(source, TARGETS, LENGTHS), atol=1e-10)

    def test_checklist_beam_rows_keep_their_source(self) -> None:
        net, source = model(), source_of(*AGENDAS)
        stepper = net.stepper(source)
        together = beam(stepper, stepper.start(3), beam_size=3, max_length=6)
        for row, agenda in enumerate(AGENDAS):
            alone = net.stepper(source_of(agenda))
            assert beam(alone, alone.start(1), beam_size=3, max_length=6)[0][0].ids == together[row][0].ids

    def test_checklist_attention_is_the_weight_of_items(self) -> None:
        net, source = model(), source_of(*AGENDAS)
        with torch.no_grad():
            weights, checked = net.attention(source, TARGETS, LENGTHS)[0], net.checked(source, TARGETS)
        assert weights[0, 0, :, :3].eq(0).all()  # the goal and the first separator
        of_items = torch.stack((weights[0, 0, :, 3], weights[0, 0, :, 5:7].sum(dim=1), weights[0, 0, :, 8]), dim=1)
        wanted = checked.switch[0, :, NEW, None] * checked.new[0] + checked.switch[0, :, USED, None] * checked.used[0]
        assert torch.allclose(of_items, wanted)
        assert weights[0, 0, 2, 5] == weights[0, 0, 2, 6]
        assert weights[2].eq(0).all()


def test_checklist_with_two_vocabularies_raises() -> None:
    with pytest.raises(ConfigError, match="one vocabulary in a checklist model, got 7 and 12 ids"):
        ChecklistModel(ChecklistConfig(), VocabularyInfo(7, SIDES.counts, BEGIN, END), SEPARATOR)


@pytest.mark.parametrize("reader", ["none", "attention"])
def test_checklist_learns_to_mention_items_in_order(reader: str) -> None:
    torch.manual_seed(0)
    words = range(5, V)
    rows = [[int(x) for x in torch.randperm(len(words))[:3] + 5] for _ in range(64)]
    source = source_of(*(([UNK], [[id] for id in row]) for row in rows))
    targets = torch.tensor([[*sorted(row), END] for row in rows])
    lengths = torch.full((64,), 4)
    options = {"d": 24, "d_embedding": 16, "scale": 0.5, "reader": reader}
    dropout = {"dropout_input": 0.0, "dropout_source": 0.0, "dropout_output": 0.0}
    settings = ChecklistConfig.model_validate(options | dropout)
    net = ChecklistModel(settings, SIDES, SEPARATOR, NAMES)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(120):
        optimizer.zero_grad()
        net.loss(source, targets, lengths).backward()
        optimizer.step()
    net.eval()
    new = source_of(*(([UNK], [[6], [9], [8]]), ([UNK], [[11], [5], [7]])))
    stepper = net.stepper(new)
    assert [row[0].ids for row in greedy(stepper, stepper.start(2), 6)] == [(6, 8, 9), (5, 7, 11)]
    ticked = net.checked(new, torch.tensor([[6, 8, 9, END], [5, 7, 11, END]])).ticked
    assert ticked[0, 0].argmax() == 0
    assert ticked[:, 3].min() > 0.5
