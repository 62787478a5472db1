"""Outputs of a pointer network do not depend on the other sets of a batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from catena.encoders.config import RecurrentConfig
from catena.seq2seq.config import PointerNetworkConfig
from catena.seq2seq.pointer import build_pointer
from catena.tasks.point.data import PointEncoding, PointSetBatch
from catena.tasks.point.search import search


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("rule", ["any", "ring"])
def test_truncation_does_not_depend_on_other_sets(rule: str, beam_size: int) -> None:
    torch.manual_seed(2)
    decoder = RecurrentConfig(d=4, bidirectional=False)
    settings = PointerNetworkConfig(d=4, encoder=RecurrentConfig(d=2), decoder=decoder)
    model = build_pointer(settings, rule, n_features=1).eval()
    with torch.no_grad():
        model.end_key.mul_(-100)  # hardly ever the end
    sizes = np.array([2, 6, 4, 3, 2])
    nothing = np.zeros((5, 1), np.int64)
    sets = PointSetBatch(np.random.default_rng(1).random((5, 6, 1)), sizes, nothing, np.ones(5, np.int64))
    encoding = PointEncoding("own", None, 1, longest=3)
    found = search(model, encoding, sets, beam_size)
    for i, listed in enumerate(found):
        alone = PointSetBatch(sets.values[[i]], sizes[[i]], nothing[:1], np.ones(1, np.int64))
        (wanted,) = search(model, encoding, alone, beam_size)
        assert [one.ids for one in listed] == [one.ids for one in wanted]
        assert [one.finished for one in listed] == [one.finished for one in wanted]
    if rule == "any" and beam_size == 1:
        assert [len(listed[0].ids) for listed in found] == [4, 7, 5, 4, 4]
