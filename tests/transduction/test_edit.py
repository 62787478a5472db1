"""The contextual edit transducer: features of its scores, both kinds of normalization, and training."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from catena.data.batches import pad
from catena.transduction.alphabet import Alphabet
from catena.transduction.config import EditConfig
from catena.transduction.edit import FIRST, OUTSIDE, EditTransducer, HashedWindow, best_targets, source_ids

SMALL = {"buckets": 997, "size": 5, "dropout": 0.0}


def shaken(settings: EditConfig, source: int = 3, target: int = 2) -> EditTransducer:
    """Return a model with nonzero weights."""
    torch.manual_seed(0)
    model = EditTransducer(settings, source, target).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


@pytest.mark.parametrize("normalize", ["global", "local"])
@pytest.mark.parametrize("scores", ["features", "encoder"])
def test_probabilities_of_all_targets_sum_to_one(normalize: str, scores: str) -> None:
    model = shaken(EditConfig(normalize=normalize, scores=scores, **SMALL))
    strings = [y for n in range(10) for y in itertools.product(range(2), repeat=n)]
    targets, target_lengths = pad([np.array(y, np.int64) for y in strings])
    for source in ([3, 4], [5]):
        ids, lengths = pad([np.array(source)] * len(strings))
        total = torch.exp(-model.loss(ids, lengths, targets, target_lengths)).sum().item()
        assert 0.97 < total <= 1 + 1e-9


def test_local_scores_are_probabilities_at_every_position() -> None:
    model = shaken(EditConfig(normalize="local", **SMALL))
    ids, lengths = pad([np.array([3, 4]), np.array([5])])
    lattice = model(ids, lengths)
    here = torch.cat((lattice.insert[0, :2], lattice.substitute[0], lattice.delete[0][..., None]), -1).exp().sum(-1)
    assert here.flatten().tolist() == pytest.approx([1.0] * here.numel())
    for r, n in enumerate(lengths.tolist()):
        at_end = lattice.insert[r, n].exp().sum(-1) + lattice.end[r].exp()
        assert at_end.tolist() == pytest.approx([1.0] * 3)
    assert lattice.log_partition().tolist() == pytest.approx([0.0, 0.0], abs=1e-9)


def test_insertions_converge_for_all_weights() -> None:
    model = shaken(EditConfig(**SMALL))
    with torch.no_grad():
        model.insertion_bias.fill_(12.0)
    ids, lengths = pad([np.array([3, 4])])
    assert torch.isfinite(model(ids, lengths).log_partition()).all()


def test_window_depends_only_on_its_symbols() -> None:
    window = HashedWindow(1, 4099, 2)
    torch.nn.init.normal_(window.table.weight)
    base = torch.tensor([[3, 4, 5, 6, 7, OUTSIDE]])
    changed = torch.tensor([[3, 4, 5, 6, 8, OUTSIDE]])
    same = (window(base) == window(changed)).all(-1)[0].tolist()
    assert same == [True, True, True, False, False, False]
    padded = torch.cat((base, torch.zeros(1, 3, dtype=torch.long)), 1)
    assert torch.equal(window(padded)[:, :6], window(base))


def test_unknown_symbols_have_separate_id() -> None:
    letters = Alphabet("ab")
    assert source_ids(letters, "ab?") == [FIRST, FIRST + 1, FIRST - 1]


@pytest.mark.parametrize("normalize", ["global", "local"])
def test_training_learns_contextual_rule(normalize: str) -> None:
    """c becomes s before e and k elsewhere, final e is silent, and x becomes k s."""
    rules = {"c": "k", "x": "ks"}

    def written(word: str) -> str:
        out = ""
        for i, letter in enumerate(word):
            if letter == "c" and word[i + 1 : i + 2] == "e":
                out += "s"
            elif letter != "e" or i + 1 < len(word):
                out += rules.get(letter, letter)
        return out

    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("acextd"), rng.integers(2, 6))) for _ in range(250)]
    pairs = [(word, written(word)) for word in words if written(word)]
    source, target = (Alphabet.of(pair[side] for pair in pairs) for side in (0, 1))
    torch.manual_seed(0)
    model = EditTransducer(EditConfig(normalize=normalize, buckets=4096), len(source), len(target))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.08)
    ids, lengths = pad([np.array(source_ids(source, x)) for x, _ in pairs])
    targets, target_lengths = pad([np.array(target.ids(y)) - 1 for _, y in pairs])
    first = last = math.inf
    for step in range(40):
        loss = model.loss(ids, lengths, targets, target_lengths).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        first, last = (loss.item() if step == 0 else first), loss.item()
    assert last < 0.1 * first
    others = [word for word in ("".join(rng.choice(list("acextd"), 4)) for _ in range(60)) if word not in words]
    ids, lengths = pad([np.array(source_ids(source, word)) for word in others])
    lattice, right = model(ids, lengths), 0
    for r, word in enumerate(others):
        found = best_targets(lattice, r, word, target, 2, 24)
        right += "".join(found[0].tokens) == written(word)
        assert "".join(s for link in found[0].alignment for s in link.source) == word
        assert tuple(t for link in found[0].alignment for t in link.target) == found[0].tokens
        assert (found[0].log_prob or 0.0) > (found[1].log_prob or 0.0)
    assert right > 0.8 * len(others)
