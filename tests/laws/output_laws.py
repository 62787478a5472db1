"""Laws of all output layers. A test class defines ``make``, which builds the layer for ``v`` words.

Losses that sample are compared with themselves at the same seed of torch's generator.
"""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor

from catena.errors import DataError, ShapeError
from catena.outputs.base import OutputLayer, scatter_log_probs

V, D, N = 11, 6, 7
COUNTS = [0, 3, 40, 25, 13, 9, 6, 6, 2, 1, 1]
CLOSE = {"rtol": 0.0, "atol": 1e-10}


def counts_for(v: int) -> list[int]:
    return (COUNTS * (1 + v // V))[:v]


def seeded(function: Callable[[], Tensor], seed: int = 3) -> Tensor:
    torch.manual_seed(seed)
    return function()


def gradients(value: Tensor, layer: OutputLayer, hidden: Tensor) -> list[Tensor]:
    found = torch.autograd.grad(value, [hidden, *layer.parameters()], allow_unused=True)
    inputs = [hidden, *layer.parameters()]
    return [torch.zeros_like(x) if g is None else g for g, x in zip(found, inputs, strict=True)]


def scramble(layer: OutputLayer) -> OutputLayer:
    """Perturb the weights so that all words have different probabilities."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.5)
    return layer


def chi_square_bound(k: int) -> float:
    """A value that a chi-square variable of k - 1 degrees exceeds with probability 1e-4 (Wilson & Hilferty 1931)."""
    degrees = k - 1
    return degrees * (1 - 2 / (9 * degrees) + 3.72 * math.sqrt(2 / (9 * degrees))) ** 3


class OutputLaws:
    """Inherit, and define ``make``."""

    half_tolerance = 0.05

    def make(self, v: int, forbidden: Sequence[int] = ()) -> OutputLayer:
        raise NotImplementedError

    @pytest.fixture
    def layer(self) -> OutputLayer:
        return scramble(self.make(V).double())

    @pytest.fixture
    def hidden(self) -> Tensor:
        return torch.randn(N, D, dtype=torch.float64, requires_grad=True)

    @pytest.fixture
    def targets(self) -> Tensor:
        return torch.tensor([2, 3, 10, 1, 5, 2, 7])

    def test_probabilities_sum_to_one_and_none_is_lost(self, layer: OutputLayer, hidden: Tensor) -> None:
        log_probs = layer.log_probs(hidden)
        assert log_probs.shape == (N, V)
        assert (log_probs > -math.inf).all()
        torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(N).double(), **CLOSE)

    def test_log_prob_is_the_entry_of_log_probs_for_every_word(self, layer: OutputLayer, hidden: Tensor) -> None:
        for word in range(V):
            found = layer.log_prob(hidden, torch.full((N,), word))
            torch.testing.assert_close(found, layer.log_probs(hidden)[:, word], **CLOSE)

    def test_log_prob_has_the_gradient_of_log_probs(self, layer: OutputLayer, hidden: Tensor, targets: Tensor) -> None:
        weights = torch.randn(N, dtype=torch.float64)
        plain = layer.log_probs(hidden)[torch.arange(N), targets]
        for ours, wanted in zip(
            gradients(layer.log_prob(hidden, targets) @ weights, layer, hidden),
            gradients(plain @ weights, layer, hidden),
            strict=True,
        ):
            torch.testing.assert_close(ours, wanted, **CLOSE)

    def test_a_loss_that_is_a_likelihood_equals_it_with_its_gradient(
        self, layer: OutputLayer, hidden: Tensor, targets: Tensor
    ) -> None:
        plain = -layer.log_probs(hidden)[torch.arange(N), targets].mean()
        loss = layer.loss(hidden, targets)
        if not layer.likelihood:
            assert abs(loss.item() - plain.item()) > 1e-6, "a loss that equals the likelihood should say so"
            return
        torch.testing.assert_close(loss, plain, **CLOSE)
        for ours, wanted in zip(gradients(loss, layer, hidden), gradients(plain, layer, hidden), strict=True):
            torch.testing.assert_close(ours, wanted, **CLOSE)

    def test_loss_gradient_equals_finite_differences(self, layer: OutputLayer, hidden: Tensor, targets: Tensor) -> None:
        def loss(hidden: Tensor, *parameters: Tensor) -> Tensor:
            names = [name for name, _ in layer.named_parameters()]
            given = dict(zip(names, parameters, strict=True))
            return seeded(lambda: torch.func.functional_call(layer, given, (hidden, targets)))

        assert torch.autograd.gradcheck(loss, (hidden, *layer.parameters()), atol=1e-7, rtol=1e-5)

    def test_gradients_can_be_differentiated_again(self, layer: OutputLayer, hidden: Tensor, targets: Tensor) -> None:
        def loss(hidden: Tensor) -> Tensor:
            return seeded(lambda: layer.loss(hidden, targets))

        def log_prob(hidden: Tensor) -> Tensor:
            return layer.log_prob(hidden, targets)

        assert torch.autograd.gradgradcheck(loss, (hidden,), atol=1e-7, rtol=1e-5)
        assert torch.autograd.gradgradcheck(log_prob, (hidden,), atol=1e-7, rtol=1e-5)

    def test_rows_are_independent(self, layer: OutputLayer, hidden: Tensor, targets: Tensor) -> None:
        together, each = layer.log_probs(hidden), layer.log_prob(hidden, targets)
        for i in range(N):
            row, target = hidden[i : i + 1], targets[i : i + 1]
            torch.testing.assert_close(layer.log_probs(row), together[i : i + 1], **CLOSE)
            torch.testing.assert_close(layer.log_prob(row, target), each[i : i + 1], **CLOSE)
        order = torch.randperm(N)
        torch.testing.assert_close(layer.log_prob(hidden[order], targets[order]), each[order], **CLOSE)

    def test_samples_are_as_frequent_as_their_probabilities(self, layer: OutputLayer, hidden: Tensor) -> None:
        draws = 20_000
        generator = torch.Generator().manual_seed(5)
        rows = (hidden[:1] * 0.5).expand(draws, D)
        seen = torch.bincount(layer.sample(rows, generator), minlength=V).double()
        wanted = layer.log_probs(rows[:1]).exp()[0] * draws
        assert ((seen - wanted).square() / wanted).sum() < chi_square_bound(V)
        again = layer.sample(rows, torch.Generator().manual_seed(5))
        assert torch.equal(torch.bincount(again, minlength=V).double(), seen)

    def test_among_candidates_probabilities_keep_their_ratios(self, layer: OutputLayer, hidden: Tensor) -> None:
        ids = torch.tensor([9, 2, 5])
        found, everything = layer.log_probs_among(hidden, ids), layer.log_probs(hidden)[:, ids]
        torch.testing.assert_close(found.exp().sum(1), torch.ones(N).double(), **CLOSE)
        torch.testing.assert_close(found - found[:, :1], everything - everything[:, :1], **CLOSE)

    def test_a_restricted_layer_is_a_layer_over_the_candidates(self, layer: OutputLayer, hidden: Tensor) -> None:
        ids = torch.tensor([9, 2, 5])
        narrow = layer.restricted(ids)
        assert (narrow.d_in, narrow.v) == (D, 3)
        found = narrow.log_probs(hidden)
        torch.testing.assert_close(found, layer.log_probs_among(hidden, ids), **CLOSE)
        targets = torch.tensor([0, 1, 2, 0, 1, 2, 0])
        torch.testing.assert_close(narrow.log_prob(hidden, targets), found[torch.arange(N), targets], **CLOSE)
        torch.testing.assert_close(narrow.loss(hidden, targets), -found[torch.arange(N), targets].mean(), **CLOSE)
        everywhere = scatter_log_probs(found, ids, V)
        assert torch.equal(everywhere[:, ids], found)
        assert (everywhere == -math.inf).sum() == N * (V - 3)
        for bad, words in (
            ([1, 1], "got a duplicate"),
            ([], "at least one, got none"),
            ([V], f"from 0 to {V - 1}, got"),
        ):
            with pytest.raises(DataError, match=words):
                layer.restricted(torch.tensor(bad, dtype=torch.long))

    def test_candidates_may_be_forbidden_but_not_all_of_them(self, hidden: Tensor) -> None:
        layer = scramble(self.make(V, forbidden=(0, 4)).double())
        found = layer.restricted(torch.tensor([4, 2, 0])).log_probs(hidden)
        assert torch.equal(found.exp(), torch.tensor([0.0, 1.0, 0.0]).double().expand(N, 3))
        with pytest.raises(DataError, match=r"an id that is not forbidden, got \[4, 0\]"):
            layer.restricted(torch.tensor([4, 0]))

    def test_saving_and_loading_is_identity(self, hidden: Tensor, targets: Tensor) -> None:
        layer, other = scramble(self.make(V)), self.make(V)
        other.load_state_dict(load(save(layer.state_dict())))
        x = hidden.detach().float()
        assert torch.equal(layer.log_probs(x), other.log_probs(x))
        assert torch.equal(layer.log_prob(x, targets), other.log_prob(x, targets))
        assert seeded(lambda: layer.loss(x, targets)).item() == seeded(lambda: other.loss(x, targets)).item()

    def test_a_layer_starts_at_the_frequencies_of_its_words_if_it_has_biases(self) -> None:
        layer = self.make(V, forbidden=(0,)).double()
        before = {name: value.clone() for name, value in layer.state_dict().items()}
        frequencies = np.array([0.0, 3, 40, 25, 13, 9, 6, 6, 2, 1, 1])
        layer.start_at(frequencies)
        if not any("bias" in name for name in before):
            assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())
            return
        found = layer.log_probs(torch.zeros(1, D, dtype=torch.float64)).exp()[0]
        torch.testing.assert_close(found, torch.from_numpy(frequencies / frequencies.sum()), rtol=0, atol=1e-7)

    def test_a_layer_can_be_copied_and_pickled(self, layer: OutputLayer, hidden: Tensor) -> None:
        for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert torch.equal(other.log_probs(hidden), layer.log_probs(hidden))

    def test_loss_of_no_rows_is_zero_with_zero_gradient(self, layer: OutputLayer) -> None:
        hidden = torch.empty(0, D, dtype=torch.float64, requires_grad=True)
        none = torch.empty(0, dtype=torch.long)
        loss = layer.loss(hidden, none)
        assert loss.item() == 0.0
        loss.backward()
        assert hidden.grad is not None
        assert any(p.grad is not None for p in layer.parameters())
        assert all((p.grad == 0).all() for p in layer.parameters() if p.grad is not None)
        assert layer.log_prob(hidden, none).shape == (0,)
        assert layer.log_probs(hidden).shape == (0, V)

    @pytest.mark.parametrize("v", [1, 2, 3])
    def test_tiny_vocabulary_works(self, v: int, hidden: Tensor) -> None:
        layer = scramble(self.make(v).double())
        targets = torch.arange(N) % v
        log_probs = layer.log_probs(hidden)
        torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(N).double(), **CLOSE)
        torch.testing.assert_close(layer.log_prob(hidden, targets), log_probs[torch.arange(N), targets], **CLOSE)
        loss = layer.loss(hidden, targets)
        assert loss.isfinite()
        loss.backward()
        assert hidden.grad is not None
        assert hidden.grad.isfinite().all()
        assert (layer.sample(hidden, torch.Generator().manual_seed(1)) < v).all()

    def test_forbidden_words_have_probability_zero_and_finite_gradients(self, hidden: Tensor, targets: Tensor) -> None:
        layer = scramble(self.make(V, forbidden=(0, 4)).double())
        log_probs = layer.log_probs(hidden)
        assert (log_probs[:, [0, 4]] == -math.inf).all()
        assert (log_probs[:, [1, 2, 3, 5, 6, 7, 8, 9, 10]] > -math.inf).all()
        torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(N).double(), **CLOSE)
        assert (layer.log_prob(hidden, torch.full((N,), 4)) == -math.inf).all()
        for value in (
            layer.loss(hidden, targets),
            layer.log_prob(hidden, targets).sum(),
            log_probs.exp().square().sum(),
        ):
            assert all(g.isfinite().all() for g in gradients(value, layer, hidden))
        drawn = layer.sample(hidden.repeat(200, 1), torch.Generator().manual_seed(1))
        assert not ((drawn == 0) | (drawn == 4)).any()

    def test_extreme_scores_stay_finite(self, layer: OutputLayer, targets: Tensor) -> None:
        hidden = (torch.randn(N, D, dtype=torch.float64) * 1e4).requires_grad_()
        assert layer.log_prob(hidden, targets).isfinite().all()
        loss = layer.loss(hidden, targets)
        assert loss.isfinite()
        assert all(g.isfinite().all() for g in gradients(loss, layer, hidden))

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    def test_lower_precision_is_close_to_double(
        self, layer: OutputLayer, hidden: Tensor, targets: Tensor, dtype: torch.dtype
    ) -> None:
        exact, wanted = seeded(lambda: layer.loss(hidden, targets)), layer.log_prob(hidden, targets)
        x = hidden.detach().to(dtype).requires_grad_()
        rough = layer.to(dtype)
        loss = seeded(lambda: rough.loss(x, targets))
        loss.backward()
        tolerance = 1e-4 if dtype == torch.float32 else self.half_tolerance
        assert loss.item() == pytest.approx(exact.item(), rel=tolerance, abs=tolerance)
        torch.testing.assert_close(rough.log_prob(x, targets).double(), wanted, rtol=tolerance, atol=2 * tolerance)
        assert rough.log_probs(x).exp().sum(1).tolist() == pytest.approx([1.0] * N, abs=1e-5)
        for parameter in (x, *rough.parameters()):
            assert parameter.grad is None or (parameter.grad.dtype == dtype and parameter.grad.isfinite().all())

    def test_automatic_mixed_precision_changes_little(
        self, layer: OutputLayer, hidden: Tensor, targets: Tensor
    ) -> None:
        x = hidden.detach().float().requires_grad_()
        layer = layer.float()
        exact, wanted = seeded(lambda: layer.loss(x, targets)), layer.log_prob(x, targets)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss, found = seeded(lambda: layer.loss(x, targets)), layer.log_prob(x, targets)
            everything = layer.log_probs(x)
            loss.backward()
        assert loss.item() == pytest.approx(exact.item(), rel=self.half_tolerance, abs=self.half_tolerance)
        torch.testing.assert_close(found.float(), wanted, rtol=self.half_tolerance, atol=2 * self.half_tolerance)
        assert everything.exp().sum(1).tolist() == pytest.approx([1.0] * N, abs=1e-5)
        assert all(p.grad is None or p.grad.dtype == torch.float32 for p in (x, *layer.parameters()))

    def test_half_precision_sums_gradients_in_single(self) -> None:
        """In bfloat16 a sum of a thousand equal numbers would stop growing at 256 of them."""
        n = 1000
        layer = scramble(self.make(V).double())
        row = torch.randn(1, D, dtype=torch.float64)

        def gradient(dtype: torch.dtype) -> Tensor:
            layer.to(dtype).zero_grad()
            targets = torch.full((n,), 2)
            seeded(lambda: layer.loss(row.to(dtype).expand(n, D), targets)).backward()
            return torch.cat([p.grad.flatten().double() for p in layer.parameters() if p.grad is not None])

        rough, exact = gradient(torch.bfloat16), gradient(torch.float64)
        assert (rough - exact).norm() < 0.1 * exact.norm()

    def test_repeating_a_backward_pass_repeats_the_gradient(
        self, layer: OutputLayer, hidden: Tensor, targets: Tensor
    ) -> None:
        loss = layer.loss(hidden, targets)
        inputs = [hidden, *(p for p in layer.parameters())]
        first = torch.autograd.grad(loss * 2, inputs, retain_graph=True, allow_unused=True)
        second = torch.autograd.grad(loss, inputs, allow_unused=True)
        assert len(second) > 0
        for once, twice in zip(second, first, strict=True):
            if once is not None:
                torch.testing.assert_close(twice, once * 2, **CLOSE)

    @pytest.mark.parametrize("bad", [-1, V, -100])
    def test_target_out_of_range_raises_one_sentence(
        self, layer: OutputLayer, hidden: Tensor, targets: Tensor, bad: int
    ) -> None:
        targets[3] = bad
        for function in (layer.loss, layer.log_prob):
            with pytest.raises(DataError, match=f"targets must be ids from 0 to {V - 1}, got {bad}"):
                function(hidden, targets)

    def test_input_of_wrong_size_raises(self, layer: OutputLayer, targets: Tensor) -> None:
        with pytest.raises(ShapeError, match=f"hidden must have size .* on axis 'd_in'.*, got {D + 1}"):
            layer.loss(torch.zeros(N, D + 1).double(), targets)
        with pytest.raises(ShapeError, match=f"hidden must have size .* on axis 'd_in'.*, got {D + 1}"):
            layer.log_probs(torch.zeros(N, D + 1).double())

    def test_training_finds_the_distribution_of_the_data(self) -> None:
        """Two contexts with different distributions: the optimum of the loss is the true distribution."""
        torch.manual_seed(0)
        layer, v = self.make(5), 5
        truth = torch.tensor([[0.4, 0.3, 0.15, 0.1, 0.05], [0.05, 0.1, 0.2, 0.25, 0.4]])
        context = torch.tensor([[1.0, -1, 0, 0, 1, 1], [-1.0, 1, 0, 0, 1, 1]])
        repeats = (truth * 40).round().long()
        hidden = torch.cat([context[c].expand(40, D) for c in range(2)])
        targets = torch.cat([torch.arange(v).repeat_interleave(repeats[c]) for c in range(2)])
        hidden, targets = hidden.repeat(4, 1), targets.repeat(4)
        optimizer = torch.optim.Adam(layer.parameters(), 0.05)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, 120)
        for _ in range(120):
            optimizer.zero_grad()
            layer.loss(hidden, targets).backward()
            optimizer.step()
            schedule.step()
        divergence = (truth * (truth.log() - layer.log_probs(context))).sum(1)
        assert divergence.max() < self.divergence, divergence

    divergence = 0.003
