"""Laws of incremental encoders: full sequence = chunks = steps, and states that can be selected and joined."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from catena.encoders.causal import CausalEncoder
from tests.laws.encoder_laws import CLOSE, CausalEncoderLaws, batch


def read(encoder: CausalEncoder, x: Tensor, sizes: list[int], state: Any = None) -> tuple[Tensor, Any]:
    """Encode ``x`` in chunks of these sizes."""
    state = encoder.begin(len(x), x.device, x.dtype) if state is None else state
    found = []
    for piece in x.split(sizes, dim=1):
        y, state = encoder.continue_(piece, state)
        found.append(y)
    return torch.cat(found, dim=1), state


class SteppingLaws(CausalEncoderLaws):
    """Inherit, and define the fixture ``make``."""

    def test_full_sequence_equals_chunks_and_steps(self, encoder: CausalEncoder) -> None:
        x = batch(encoder)
        whole = encoder(x, torch.full((4,), 7))
        torch.testing.assert_close(encoder.whole(x), whole, **CLOSE)
        for sizes in ([7], [3, 4], [1, 5, 1], [2, 2, 2, 1], [1] * 7):
            for grad in (True, False):
                with torch.set_grad_enabled(grad):
                    torch.testing.assert_close(read(encoder, x, sizes)[0], whole, **CLOSE)
        with torch.inference_mode():
            torch.testing.assert_close(read(encoder, x, [1] * 7)[0], whole.detach(), **CLOSE)

    def test_advance_does_not_change_its_state(self, encoder: CausalEncoder) -> None:
        x = batch(encoder)
        with torch.no_grad():
            whole = encoder.whole(x)
            _, state = read(encoder, x[:, :4], [1, 3])
            for _ in range(2):
                encoder.continue_(torch.randn_like(x[:, :2]), state)
                first = encoder.continue_(x[:, 4:5], state)[1]
            encoder.continue_(torch.randn_like(x[:, :1]), state)
            torch.testing.assert_close(encoder.continue_(x[:, 5:], first)[0], whole[:, 5:], **CLOSE)
            torch.testing.assert_close(encoder.continue_(x[:, 4:], state)[0], whole[:, 4:], **CLOSE)

    def test_select_repeats_and_drops_rows(self, encoder: CausalEncoder) -> None:
        x, rows = batch(encoder), torch.tensor([2, 0, 2])
        with torch.no_grad():
            whole = encoder.whole(x)
            _, state = read(encoder, x[:, :4], [4])
            for pieces in ([3], [1, 1, 1]):
                y, _ = read(encoder, x[rows, 4:], pieces, encoder.select(state, rows))
                torch.testing.assert_close(y, whole[rows, 4:], **CLOSE)
            none = encoder.select(state, rows[:0])
            assert encoder.continue_(x[rows[:0], 4:], none)[0].shape == (0, 3, encoder.d_out)
            y, _ = encoder.continue_(x[:, 4:], state)
            torch.testing.assert_close(y, whole[:, 4:], **CLOSE)

    def test_join_of_states_with_different_lengths(self, encoder: CausalEncoder) -> None:
        x = batch(encoder)
        read_so_far = [3, 1, 0, 4]
        with torch.no_grad():
            states = [
                read(encoder, x[i : i + 1, :n], [n])[1] if n else self._fresh(encoder, x)
                for i, n in enumerate(read_so_far)
            ]
            for together in (encoder.join(states), encoder.join([encoder.join(states[:2]), encoder.join(states[2:])])):
                rest = torch.stack([x[i, n : n + 3] for i, n in enumerate(read_so_far)])
                for pieces in ([3], [1, 2], [1, 1, 1]):
                    y, _ = read(encoder, rest, pieces, together)
                    for i, n in enumerate(read_so_far):
                        alone = encoder.whole(x[i : i + 1, : n + 3])[:, n:]
                        torch.testing.assert_close(y[i : i + 1], alone, **CLOSE)
                rows = torch.tensor([3, 3, 1])
                y, _ = read(encoder, rest[rows], [2, 1], encoder.select(together, rows))
                torch.testing.assert_close(y, read(encoder, rest, [3], together)[0][rows], **CLOSE)

    @staticmethod
    def _fresh(encoder: CausalEncoder, x: Tensor) -> Any:
        return encoder.begin(1, x.device, x.dtype)

    def test_detached_state_has_equal_values_and_no_gradient(self, encoder: CausalEncoder) -> None:
        x = batch(encoder).requires_grad_()
        _, state = encoder.continue_(x[:, :4], encoder.begin(4, x.device, x.dtype))
        later, _ = encoder.continue_(x[:, 4:].detach(), encoder.detach(state))
        torch.testing.assert_close(later, encoder.whole(x)[:, 4:], **CLOSE)
        later.sum().backward()
        assert x.grad is None
        assert all(p.grad is not None for p in encoder.parameters() if p.requires_grad)
