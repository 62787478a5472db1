"""Laws of all steppers. A test class defines the fixture ``make``, which returns a function that builds it.

Rows are always made by ``start(rows)`` and then selected, so that the laws also hold for a stepper whose rows belong to
sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from catena.errors import ShapeError
from catena.search.stepper import Stepper
from tests.devices import TensorsOn, moved


def some_ids(stepper: Stepper[Any], state: Any, t: int, seed: int = 5) -> Tensor:
    """``t`` ids for every row, sampled from the stepper; ``end`` only if nothing else is possible."""
    generator, found = torch.Generator().manual_seed(seed), []
    for _ in range(t):
        p = stepper.log_probs(state).detach().exp().double().cpu()
        p[:, stepper.end] = p[:, stepper.end].clamp(max=1e-30)
        p[p.sum(dim=1) == 0, stepper.end] = 1.0
        found.append(torch.multinomial(p, 1, generator=generator)[:, 0].to(stepper.log_probs(state).device))
        state = stepper.advance(state, found[-1])
    return torch.stack(found, dim=1) if t else torch.zeros(len(stepper.log_probs(state)), 0, dtype=torch.int64)


class StepperLaws:
    """Inherit, and define the fixture ``make``. ``atol`` allows for a different order of summation."""

    rows: ClassVar[int] = 5
    """The number of rows passed to ``start``."""
    atol: ClassVar[float] = 1e-9
    cpu_only: ClassVar[bool] = False
    """Whether the stepper is always on the CPU."""
    normalized: ClassVar[bool] = True
    """Whether the probabilities of the next id sum to one; a constraint removes some."""

    @pytest.fixture(autouse=True)
    def on_device(self, device: str) -> Iterator[None]:
        """All tensors that a test creates are on the device."""
        with TensorsOn("cpu" if self.cpu_only else device):
            yield

    @pytest.fixture
    def stepper(self, make: Callable[[], Stepper[Any]], device: str) -> Stepper[Any]:
        with TensorsOn("cpu"):
            return moved(make(), "cpu" if self.cpu_only else device)

    @pytest.fixture(autouse=True)
    def without_gradients(self) -> Any:
        with torch.no_grad():
            yield

    def same(self, found: Tensor, wanted: Tensor) -> None:
        assert found.shape == wanted.shape
        assert torch.allclose(found, wanted, rtol=0.0, atol=self.atol), (found - wanted).abs().max()

    def stepped(self, stepper: Stepper[Any], t: int, seed: int = 5) -> tuple[Any, Tensor]:
        """A state after ``t`` ids in every row, and the ids."""
        state = stepper.start(self.rows)
        ids = some_ids(stepper, state, t, seed)
        for i in range(t):
            state = stepper.advance(state, ids[:, i])
        return state, ids

    @pytest.mark.parametrize("t", [0, 3])
    def test_id_log_probs_are_entries_of_log_probs(self, stepper: Stepper[Any], t: int) -> None:
        state, _ = self.stepped(stepper, t)
        rows = torch.arange(3 * self.rows) % self.rows
        ids = (torch.arange(3 * self.rows) * 7) % stepper.v
        self.same(stepper.id_log_probs(state, rows, ids).exp(), stepper.log_probs(state)[rows, ids].exp())

    @pytest.mark.parametrize("t", [0, 1, 4])
    def test_log_probs_of_next_ids_are_normalized(self, stepper: Stepper[Any], t: int) -> None:
        state, _ = self.stepped(stepper, t)
        log_probs = stepper.log_probs(state)
        assert log_probs.shape == (self.rows, stepper.v)
        assert 0 <= stepper.end < stepper.v
        assert not log_probs.isnan().any()
        total = log_probs.double().exp().sum(dim=1)
        assert (total < 1 + 1e-4).all()
        if self.normalized:
            assert torch.allclose(total, torch.ones_like(total), atol=1e-4)
        k = min(3, stepper.v)
        top_log_probs, ids = stepper.top_log_probs(state, k)
        self.same(top_log_probs, log_probs.topk(k, dim=1).values)
        self.same(top_log_probs, log_probs.gather(1, ids))

    def test_operations_do_not_change_their_state(self, stepper: Stepper[Any]) -> None:
        state, _ = self.stepped(stepper, 3)
        other, ids = self.stepped(stepper, 2, seed=6)
        before, before_other = stepper.log_probs(state).clone(), stepper.log_probs(other).clone()
        first = stepper.advance(state, ids[:, 0])
        after_first = stepper.log_probs(first).clone()
        stepper.advance(first, ids[:, 1])
        stepper.advance(state, ids[:, 1])
        stepper.select(state, torch.tensor([0, 0]))
        stepper.join([state, other])
        stepper.extend(state, ids, torch.tensor([2, 0, 1, 2, 1])[: self.rows])
        assert torch.equal(stepper.log_probs(state), before)
        assert torch.equal(stepper.log_probs(other), before_other)
        assert torch.equal(stepper.log_probs(first), after_first)

    @pytest.mark.parametrize("rows", [[3, 1, 0, 2, 4], [2, 2, 2, 0], [4], []])
    def test_select_keeps_the_state_of_each_row(self, stepper: Stepper[Any], rows: list[int]) -> None:
        state, _ = self.stepped(stepper, 3)
        more = some_ids(stepper, state, 2, seed=7)
        picked = torch.tensor(rows, dtype=torch.int64)
        some = stepper.select(state, picked)
        self.same(stepper.log_probs(some), stepper.log_probs(state)[picked])
        for i in range(2):
            some, state = stepper.advance(some, more[picked, i]), stepper.advance(state, more[:, i])
            self.same(stepper.log_probs(some), stepper.log_probs(state)[picked])

    def test_repeated_rows_advance_independently(self, stepper: Stepper[Any]) -> None:
        state, _ = self.stepped(stepper, 2)
        twice = stepper.select(state, torch.tensor([1, 1]))
        one, other = (some_ids(stepper, stepper.select(state, torch.tensor([1])), 2, seed)[0] for seed in (8, 9))
        for i in range(2):
            twice = stepper.advance(twice, torch.stack((one[i], other[i])))
        for row, ids in enumerate((one, other)):
            alone = stepper.select(state, torch.tensor([1]))
            for i in range(2):
                alone = stepper.advance(alone, ids[i : i + 1])
            self.same(stepper.log_probs(twice)[row : row + 1], stepper.log_probs(alone))

    def test_select_and_join_of_beam_rows(self, stepper: Stepper[Any]) -> None:
        state, _ = self.stepped(stepper, 2)
        more = some_ids(stepper, state, 2, seed=7)
        origins = torch.tensor([0, 0, 3, 3, 2, 2, 4, 4])
        beam = stepper.advance(stepper.select(state, origins), more[origins, 0])
        state = stepper.advance(state, more[:, 0])
        for rows in ([7, 6, 3, 2, 2, 1], [2, 3, 7, 7], [5]):
            chosen = torch.tensor(rows)
            joined = stepper.join([stepper.select(beam, chosen), stepper.select(state, torch.tensor([1])), beam])
            own = torch.cat((origins[chosen], torch.tensor([1]), origins))
            self.same(stepper.log_probs(joined), stepper.log_probs(state)[own])
            after = stepper.log_probs(stepper.advance(joined, more[own, 1]))
            self.same(after, stepper.log_probs(stepper.advance(state, more[:, 1]))[own])

    def test_join_keeps_rows(self, stepper: Stepper[Any]) -> None:
        state, _ = self.stepped(stepper, 3)
        parts = [stepper.select(state, torch.tensor(rows, dtype=torch.int64)) for rows in ([4, 0], [], [2])]
        joined = stepper.join(parts)
        picked = torch.tensor([4, 0, 2])
        more = some_ids(stepper, state, 1, seed=7)
        self.same(stepper.log_probs(joined), stepper.log_probs(state)[picked])
        after = stepper.log_probs(stepper.advance(joined, more[picked, 0]))
        self.same(after, stepper.log_probs(stepper.advance(state, more[:, 0]))[picked])

    def test_rows_do_not_depend_on_each_other(self, stepper: Stepper[Any]) -> None:
        state, ids = self.stepped(stepper, 4)
        assert self.rows > 0
        for row in range(self.rows):
            alone = stepper.select(stepper.start(self.rows), torch.tensor([row]))
            for t in range(4):
                alone = stepper.advance(alone, ids[row : row + 1, t])
            self.same(stepper.log_probs(alone), stepper.log_probs(state)[row : row + 1])

    @pytest.mark.parametrize("lengths", [[4, 0, 2, 3, 1], [0] * 5, [3] * 5])
    def test_prompt_equals_single_steps(self, stepper: Stepper[Any], lengths: list[int]) -> None:
        _, ids = self.stepped(stepper, 4)
        beyond = torch.arange(4) >= torch.tensor(lengths)[:, None]
        padded = ids.masked_fill(beyond.to(ids.device), stepper.end)
        read = stepper.extend(stepper.start(self.rows), padded, torch.tensor(lengths, device=ids.device))
        for row, length in enumerate(lengths):
            alone = stepper.select(stepper.start(self.rows), torch.tensor([row]))
            for t in range(length):
                alone = stepper.advance(alone, ids[row : row + 1, t])
            self.same(stepper.log_probs(read)[row : row + 1], stepper.log_probs(alone))

    def test_prompt_may_be_read_in_two_parts(self, stepper: Stepper[Any]) -> None:
        state, ids = self.stepped(stepper, 4)
        first = stepper.extend(stepper.start(self.rows), ids[:, :2], torch.tensor([2, 1, 2, 0, 1]))
        rest = torch.stack([torch.roll(row, -length) for row, length in zip(ids, [2, 1, 2, 0, 1], strict=True)])
        second = stepper.extend(first, rest, torch.tensor([2, 3, 2, 4, 3]))
        self.same(stepper.log_probs(second), stepper.log_probs(state))

    def test_log_probs_of_given_ids_equal_steps(self, stepper: Stepper[Any]) -> None:
        _, ids = self.stepped(stepper, 4)
        lengths = torch.tensor([4, 0, 2, 3, 1])
        found = stepper.token_log_probs(ids, lengths)
        state = stepper.start(self.rows)
        for t in range(4):
            wanted = stepper.log_probs(state).gather(1, ids[:, t : t + 1])[:, 0]
            self.same(found[:, t], torch.where(lengths > t, wanted, 0.0))
            state = stepper.advance(state, ids[:, t])
        other = ids.masked_fill(torch.arange(4) >= lengths[:, None], stepper.end)
        self.same(stepper.token_log_probs(other, lengths), found)
        assert stepper.token_log_probs(ids[:, :0], lengths * 0).shape == (self.rows, 0)

    @pytest.mark.parametrize("t", [0, 2, 4])
    def test_branches_contain_every_possible_id_once(self, stepper: Stepper[Any], t: int) -> None:
        if not stepper.constrained:
            with pytest.raises(NotImplementedError):
                stepper.branches(stepper.start(self.rows))
            return
        state, _ = self.stepped(stepper, t)
        possible = (stepper.log_probs(state) > -torch.inf).cpu()  # branches may be on the CPU
        possible[:, stepper.end] = False
        times = torch.zeros(possible.shape, dtype=torch.int64, device="cpu")
        for branch in stepper.branches(state):
            rows, ids, remaining = (x.cpu() for x in branch)
            assert len(rows) == len(remaining)
            assert (remaining >= 0)[possible[rows][:, ids.long()].any(dim=1)].all()
            times[rows[:, None], ids.long()[None]] += 1
        assert (times[possible] == 1).all()
        assert times.max() <= 1
        assert not times[:, stepper.end].any()

    def test_finished_rows_may_advance(self, stepper: Stepper[Any]) -> None:
        state, ids = self.stepped(stepper, 3)
        last = ids[:, -1].clone()
        last[::2] = stepper.end
        for _ in range(2):
            state = stepper.advance(state, last)
            assert not stepper.log_probs(state).isnan().any()

    def test_prompt_lengths_out_of_range_raise(self, stepper: Stepper[Any]) -> None:
        _, ids = self.stepped(stepper, 2)
        for wrong in (3, -1):
            lengths = torch.tensor([1] * (self.rows - 1) + [wrong])
            with pytest.raises(ShapeError, match="lengths"):
                stepper.extend(stepper.start(self.rows), ids, lengths)
            with pytest.raises(ShapeError, match="lengths"):
                stepper.token_log_probs(ids, lengths)
