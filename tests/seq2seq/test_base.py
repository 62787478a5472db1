"""Invalid sources raise an error before a model reads them."""

from __future__ import annotations

import pytest
import torch

from catena.errors import ShapeError
from catena.seq2seq.base import Source
from catena.seq2seq.pointer import PointerInputs


@pytest.mark.parametrize("wrong", [-1, 0, 4])
@pytest.mark.parametrize(("kind", "name"), [(Source, "a source"), (PointerInputs, "things")])
def test_source_lengths_out_of_range_raise(kind: type, name: str, wrong: int) -> None:
    ids = torch.tensor([[4, 5, 6], [4, 0, 0]])
    kind(ids, torch.tensor([3, 1]))
    with pytest.raises(ShapeError, match=f"the lengths of {name} must be from 1 to 3, .*, got {wrong}"):
        kind(ids, torch.tensor([3, wrong]))
    kind(ids[:0], torch.tensor([], dtype=torch.int64))
