"""Laws of all encoder-decoders, including the stepper laws.

A test class defines the fixture ``make_model``, which returns a function that builds the model for the vocabularies of
``SIDES``, in float64 and evaluation mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from catena.errors import ShapeError
from catena.search.stepper import HasAttention, Stepper
from catena.seq2seq.base import EncoderDecoder, Source, VocabularyInfo
from tests.laws.stepper_laws import StepperLaws, some_ids

SIDES = VocabularyInfo(n_source=9, counts=(0, 2, 0, 5, 4, 3, 2, 2), begin=2, end=3, forbidden=(0, 2))
ONE_VOCABULARY = VocabularyInfo(n_source=8, counts=SIDES.counts, begin=2, end=3, forbidden=(0, 2), shared=True)

Maker = Callable[[], EncoderDecoder]


def padded(rows: list[list[int]], width: int = 0, fill: int = 0) -> tuple[Tensor, Tensor]:
    """Ids, padded with ``fill``, and lengths."""
    width = max(width, *(len(row) for row in rows))
    ids = torch.tensor([row + [fill] * (width - len(row)) for row in rows])
    return ids, torch.tensor([len(row) for row in rows])


class EncoderDecoderLaws(StepperLaws):
    """Inherit, and define the fixture ``make_model``."""

    sources: ClassVar[list[list[int]]] = [[4, 5, 6, 7], [1, 4], [7], [5, 5, 6, 4, 1, 7], [6, 4, 5]]
    targets: ClassVar[list[list[int]]] = [[4, 5, 3], [6, 7, 7, 4, 3], [3], [5, 1, 3], [4, 3]]
    looks: ClassVar[bool] = True
    """Whether the model has attention."""
    sums_to_one: ClassVar[bool] = True
    """Whether its weights sum to one; otherwise they sum to at most one."""
    unused: ClassVar[tuple[str, ...]] = ()
    """Prefixes of the names of parameters that get no gradient from the loss."""

    # --- hooks --------------------------------------------------------------------------------------------------------

    def source(self, rows: list[list[int]], width: int = 0, fill: int = 0) -> Source:
        """Padded sources; models that copy need more."""
        return Source(*padded(rows, width, fill))

    def stepper_weights(self, found: list[Tensor]) -> Tensor:
        """The weights ``b t s`` that the stepper returns, given those of all layers."""
        return found[-1].mean(dim=1)

    # --- what the laws use --------------------------------------------------------------------------------------------

    @pytest.fixture
    def model(self, make_model: Maker, device: str) -> EncoderDecoder:
        return make_model().to("cpu" if self.cpu_only else device)

    @pytest.fixture
    def make(self, model: EncoderDecoder) -> Callable[[], Stepper[Any]]:
        return lambda: model.stepper(self.source(self.sources))

    @pytest.fixture
    def stepper(self, make: Callable[[], Stepper[Any]]) -> Stepper[Any]:
        return make()

    def log_probs(self, model: EncoderDecoder, rows: list[int], wider: int = 0, fill: int = 0) -> list[Tensor]:
        """The log-probabilities of the real tokens of these examples, read as one batch."""
        chosen = [self.sources[row] for row in rows]
        source = self.source(chosen, max(map(len, chosen)) + wider if wider else 0, fill)
        targets, lengths = padded([self.targets[row] for row in rows])
        if wider:
            targets = torch.nn.functional.pad(targets, (0, wider), value=fill)
        found = model.token_log_probs(source, targets, lengths)
        assert found.shape == targets.shape
        assert (found[torch.arange(targets.shape[1]) >= lengths[:, None]] == 0).all()
        return [row[:length] for row, length in zip(found, lengths, strict=True)]

    # --- laws ---------------------------------------------------------------------------------------------------------

    def test_log_probs_of_targets_equal_steps(self, model: EncoderDecoder) -> None:
        source = self.source(self.sources)
        targets, lengths = padded(self.targets)
        found = model.token_log_probs(source, targets, lengths)
        assert (found[torch.arange(targets.shape[1]) < lengths[:, None]] < 0).all()
        self.same(found, Stepper.token_log_probs(model.stepper(source), targets, lengths))

    @pytest.mark.parametrize("fill", [0, 5])
    def test_padding_changes_nothing(self, model: EncoderDecoder, fill: int) -> None:
        rows = list(range(self.rows))
        pairs = zip(self.log_probs(model, rows), self.log_probs(model, rows, 3, fill), strict=True)
        for wanted, found in pairs:
            self.same(found, wanted)

    def test_encoder_output_is_zero_at_padding(self, model: EncoderDecoder) -> None:
        source = self.source(self.sources, 8, 5)
        memory = model.encode(source)
        beyond = torch.arange(8) >= source.lengths[:, None]
        assert not memory.states[beyond].any()
        assert memory.states[~beyond].any(dim=-1).all()
        turned = memory.select(torch.tensor([2, 0, 2]))
        assert torch.equal(turned.states, memory.states[[2, 0, 2]])
        assert torch.equal(turned.lengths, source.lengths[[2, 0, 2]])
        assert torch.equal(turned.source.ids, source.ids[[2, 0, 2]])

    def test_pairs_are_independent_of_the_batch(self, model: EncoderDecoder) -> None:
        together = self.log_probs(model, list(range(self.rows)))
        order = [3, 1, 4, 0, 2]
        for row, found in zip(order, self.log_probs(model, order), strict=True):
            self.same(found, together[row])
        for row in range(self.rows):
            self.same(self.log_probs(model, [row])[0], together[row])

    def test_the_loss_is_the_mean_over_tokens(self, model: EncoderDecoder) -> None:
        targets, lengths = padded(self.targets)
        loss = model.loss(self.source(self.sources), targets, lengths)
        assert loss.shape == ()
        wanted = -torch.cat(self.log_probs(model, list(range(self.rows)))).mean()
        self.same(loss, wanted)
        self.same(model.loss(self.source(self.sources, 9, 5), torch.nn.functional.pad(targets, (0, 2)), lengths), loss)

    def test_loss_has_gradient_for_every_parameter(self, model: EncoderDecoder) -> None:
        model.train()
        with torch.enable_grad():
            model.loss(self.source(self.sources), *padded(self.targets)).backward()
        used = {k: p for k, p in model.named_parameters() if p.requires_grad and not k.startswith(self.unused)}
        assert used
        for name, parameter in used.items():
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name

    def test_mixed_precision_is_close(self, model: EncoderDecoder) -> None:
        model.float()
        source, (targets, lengths) = self.source(self.sources), padded(self.targets)
        # cuDNN's recurrences have no backward pass in evaluation mode.
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            with torch.autocast(model.device.type, torch.bfloat16):
                loss = model.loss(source, targets, lengths)
            loss.backward()
        assert loss.item() == pytest.approx(model.loss(source, targets, lengths).item(), abs=0.1)

    def test_training_is_reproducible_from_its_seed(self, model: EncoderDecoder) -> None:
        model.train()
        losses = []
        for _ in range(2):
            torch.manual_seed(3)
            losses.append(model.loss(self.source(self.sources), *padded(self.targets)))
        assert torch.equal(*losses)

    def test_forbidden_ids_have_probability_zero(self, model: EncoderDecoder) -> None:
        stepper = model.stepper(self.source(self.sources))
        log_probs = stepper.log_probs(stepper.start(self.rows))
        assert (log_probs[:, list(SIDES.forbidden)] == -torch.inf).all()
        assert (model.v, model.begin, model.end) == (SIDES.v, SIDES.begin, SIDES.end)

    def test_start_with_wrong_number_of_rows_raises(self, model: EncoderDecoder) -> None:
        stepper = model.stepper(self.source(self.sources))
        with pytest.raises(ShapeError, match="n must be 5, the number of sources, in start, got 2"):
            stepper.start(2)

    def advanced(self, stepper: Stepper[Any], n: int, rows: list[int], t: int) -> Any:
        """The state of some rows after ``t`` ids."""
        state = stepper.select(stepper.start(n), torch.tensor(rows))
        for ids in some_ids(stepper, state, t).unbind(1):
            state = stepper.advance(state, ids)
        return state

    @pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0]])
    def test_joined_states_of_several_steppers_equal_separate_ones(
        self, model: EncoderDecoder, order: list[int]
    ) -> None:
        """Sources of other batches and widths, at other steps. A joined state is joined again."""
        batches = [self.sources, self.sources[2::-1], self.sources[1:3]]
        picks = [([3, 3, 0, 0], 3), ([1, 1, 2, 2, 0, 0], 1), ([1, 0], 0)]
        steppers = [model.stepper(self.source(batches[i])) for i in order]
        states = [
            self.advanced(stepper, len(batches[i]), *picks[i]) for i, stepper in zip(order, steppers, strict=True)
        ]
        joined = steppers[0].join([steppers[0].join(states[:2]), states[2]])
        for _ in range(4):
            self.same_as_separate(steppers, joined, states)
            each = [some_ids(x, state, 1)[:, 0] for x, state in zip(steppers, states, strict=True)]
            joined = steppers[0].advance(joined, torch.cat(each))
            states = [x.advance(state, ids) for x, state, ids in zip(steppers, states, each, strict=True)]
        last = steppers[0].select(joined, torch.tensor([10, 11, 4]))
        separate = torch.cat([x.log_probs(state) for x, state in zip(steppers, states, strict=True)])
        self.same(steppers[0].log_probs(last), separate[[10, 11, 4]])

    def same_as_separate(self, steppers: list[Any], joined: Any, states: list[Any]) -> None:
        """Check the log-probabilities and the attention of a joined state of the first stepper."""
        separate = [x.log_probs(state) for x, state in zip(steppers, states, strict=True)]
        self.same(steppers[0].log_probs(joined), torch.cat(separate))
        if not isinstance(steppers[0], HasAttention):
            return
        row, weights, mask = 0, steppers[0].attention(joined), steppers[0].source_mask(joined)
        for stepper, state in zip(steppers, states, strict=True):
            for own, real in zip(stepper.attention(state), stepper.source_mask(state), strict=True):
                assert mask[row].sum() == real.sum()
                self.same(weights[row][mask[row]], own[real])
                assert not weights[row][~mask[row]].any()
                row += 1

    @pytest.mark.parametrize("query", ["loss", "token_log_probs", "attention"])
    def test_targets_of_wrong_shape_raise(self, model: EncoderDecoder, query: str, device: str) -> None:
        source, (targets, lengths) = self.source(self.sources), padded(self.targets)
        asked = getattr(model, query)
        with pytest.raises(ShapeError, match="targets must have size 5 on axis 'b' of 'b t', got 1"):
            asked(source, targets[:1], lengths[:1])
        if device == "cuda" and not self.cpu_only:
            return  # lengths on a GPU are checked without waiting for them: see tests/test_shapes.py
        with pytest.raises(ShapeError, match=r"the lengths of targets must be from 0 to 5, .*, got 6"):
            asked(source, targets, lengths + 1)

    def test_saved_and_loaded_weights_give_the_same_model(self, make_model: Maker, device: str) -> None:
        first, second = (make_model().to("cpu" if self.cpu_only else device) for _ in range(2))
        with torch.no_grad():
            for parameter in second.parameters():
                parameter.mul_(0.5)
        rows = list(range(self.rows))
        wanted = torch.cat(self.log_probs(first, rows))
        assert not torch.allclose(torch.cat(self.log_probs(second, rows)), wanted)
        second.load_state_dict(first.state_dict())
        assert torch.equal(torch.cat(self.log_probs(second, rows)), wanted)

    def test_in_place_weight_changes_are_used_after_training(self, make_model: Maker, device: str) -> None:
        def answers(model: EncoderDecoder) -> Tensor:
            stepper = model.stepper(self.source(self.sources))
            state = stepper.advance(stepper.start(self.rows), torch.full((self.rows,), 4))
            return stepper.log_probs(state)

        model, fresh = (make_model().to("cpu" if self.cpu_only else device) for _ in range(2))
        before = answers(model)
        model.train()
        for parameter in model.parameters():
            parameter.data *= 0.5  # like fused optimizers, whose changes torch does not count
        fresh.load_state_dict(model.state_dict())
        wanted = answers(fresh)
        assert not torch.allclose(wanted, before)
        self.same(answers(model.eval()), wanted)

    # --- attention ----------------------------------------------------------------------------------------------------

    def test_cross_attention_ignores_padding(self, model: EncoderDecoder) -> None:
        source = self.source(self.sources, 8, 5)
        targets, lengths = padded(self.targets)
        found = model.attention(source, targets, lengths)
        assert bool(found) == self.looks
        for weights in found:
            b, h, t, s = weights.shape
            assert (b, t, s) == (self.rows, targets.shape[1], 8)
            assert h >= 1
            assert (weights >= 0).all()
            beyond = torch.arange(8) >= source.lengths[:, None]
            assert (weights.permute(0, 3, 1, 2)[beyond] == 0).all()
            for row, length in zip(weights.sum(dim=-1), lengths, strict=True):
                total = row[:, :length]
                if self.sums_to_one:
                    self.same(total, torch.ones_like(total))
                else:
                    assert (total <= 1 + 1e-9).all()
                    assert (total > 0).all()

    def test_self_attention_ignores_padding_and_future(self, model: EncoderDecoder) -> None:
        source, (targets, lengths) = self.source(self.sources, 8), padded(self.targets, 7)
        within = [(w, source.lengths) for w in model.source_attention(source)]
        within += [(w, lengths) for w in model.target_attention(source, targets, lengths)]
        for weights, own in within:
            real = torch.arange(weights.shape[-1]) < own[:, None]
            sums = real[:, None].to(weights.dtype).expand(-1, weights.shape[1], -1)
            torch.testing.assert_close(weights.sum(-1), sums)
            assert not weights.masked_fill(real[:, None, None], 0.0).any()
        assert not any(w.triu(1).any() for w in model.target_attention(source, targets, lengths))

    def test_stepper_attention_equals_full_attention(self, model: EncoderDecoder) -> None:
        source = self.source(self.sources)
        targets, lengths = padded(self.targets)
        stepper = model.stepper(source)
        assert isinstance(stepper, HasAttention) == self.looks
        if not isinstance(stepper, HasAttention):
            return
        whole = self.stepper_weights(model.attention(source, targets, lengths))
        state = stepper.start(self.rows)
        assert torch.equal(stepper.source_mask(state), torch.arange(source.ids.shape[1]) < source.lengths[:, None])
        for t in range(targets.shape[1]):
            for row in range(self.rows):
                if t < lengths[row]:
                    self.same(stepper.attention(state)[row], whole[row, t])
            state = stepper.advance(state, targets[:, t])
        for picked in (torch.tensor([3, 0, 3]), torch.tensor([3, 3, 1, 1])):
            some = stepper.select(state, picked)
            self.same(stepper.attention(some), stepper.attention(state)[picked])
            assert torch.equal(stepper.source_mask(some), stepper.source_mask(state)[picked])
