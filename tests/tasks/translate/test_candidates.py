"""Candidates: a word alignment that finds what belongs together, and searches that keep to their lists."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from catena.decoding.table import TableStepper
from catena.errors import CheckpointError
from catena.outputs.softmax import Softmax
from catena.tasks.translate.among import Among, Candidates, Spread
from catena.tasks.translate.dataset import prepare
from catena.tasks.translate.lexicon import learn_candidates, load_candidates, save_candidates, word_table
from tests.tasks.translate.toy import toy_config, write_files


def test_words_that_stand_together_are_found(tmp_path: Path) -> None:
    data = prepare(toy_config(write_files(tmp_path)))
    table = learn_candidates(data.pairs, data.rows["train"], 2)
    source, target = data.encoding.source.vocabulary, data.encoding.target.vocabulary
    for word, wanted in (
        ("dog", "Hund"),
        ("cat", "Katze"),
        ("today", "heute"),
        ("hears", "hört"),
        ("garden", "Garten"),
    ):
        found = target.tokens([i for i in table[source.ids([word])[0]].tolist() if i >= 0])
        assert wanted in found, word
    assert table.shape == (len(source), 2)
    save_candidates(table, tmp_path)
    assert (load_candidates(tmp_path, len(source)) == table).all()
    with pytest.raises(CheckpointError, match="must have 3 rows"):
        load_candidates(tmp_path, 3)
    (tmp_path / "candidates.npy").write_bytes(b"x")
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_candidates(tmp_path, 3)


def test_expectation_maximisation_equals_loops() -> None:
    pairs = [([0, 1], [0, 1]), ([0, 2], [0, 2]), ([1], [1])]
    t = {(f, e): 1.0 for x, y in pairs for f in x for e in y}
    for _ in range(5):
        counts = dict.fromkeys(t, 0.0)
        for x, y in pairs:
            for e in y:
                total = sum(t[f, e] for f in x)
                for f in x:
                    counts[f, e] += t[f, e] / total
        sums = {f: sum(n for (g, _), n in counts.items() if g == f) for f, _ in t}
        t = {(f, e): n / sums[f] for (f, e), n in counts.items()}
    table = word_table(((np.array(x), np.array(y)) for x, y in pairs), 3, 3, 3)
    for f in range(3):
        wanted = sorted((e for g, e in t if g == f), key=lambda e: (-t[f, e], e))
        assert [e for e in table[f].tolist() if e >= 0] == wanted


def test_a_layer_over_candidates_gives_them_all_the_probability() -> None:
    torch.manual_seed(0)
    layer = Softmax(4, 7)
    ids = torch.tensor([1, 3, 6])
    hidden = torch.randn(5, 4)
    with torch.no_grad():
        few, all_ = Spread(layer, ids).log_probs(hidden), layer.log_probs(hidden)
    assert torch.allclose(few.exp().sum(dim=1), torch.ones(5))
    assert torch.allclose(few[:, ids], torch.log_softmax(all_[:, ids], dim=1), atol=1e-6)
    assert (few.exp()[:, [0, 2, 4, 5]] == 0).all()


def test_every_row_keeps_to_the_candidates_of_its_source() -> None:
    stepper = TableStepper.of({(): [0.4, 0.3, 0.2, 0.1]}, end=3)
    found = Candidates(np.array([3]), np.array([[0, -1], [1, 2]]), 4)
    among = Among(stepper, found.allowed([np.array([0]), np.array([1]), np.array([0, 1])]))
    state = among.select(among.start(3), torch.tensor([2, 0, 0, 1]))
    state = among.join([among.advance(state, torch.zeros(4, dtype=torch.int64)), among.start(3)])
    p = among.log_probs(state).exp()
    one, two, both = [0.8, 0, 0, 0.2], [0, 0.5, 1 / 3, 1 / 6], [0.4, 0.3, 0.2, 0.1]
    assert torch.allclose(p, torch.tensor([both, one, one, two, one, two, both], dtype=p.dtype))
