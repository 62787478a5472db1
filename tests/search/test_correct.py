"""Correction end to end: sentences with typical errors, corrected by a model of characters."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from catena.search.channel import EditChannel
from catena.search.correct import correct
from catena.search.mcmc import AnnealingSchedule
from catena.search.mcmc_target import NoisyChannelPosterior
from catena.search.table_stepper import TableStepper

CORPUS = [
    "文学是一种艺术形式",
    "音乐是一种艺术形式",
    "绘画也是一种艺术",
    "诗歌是文学的一种形式",
    "医生学习医术",
    "他的医术很好",
    "艺术来自生活",
    "生活是文学的源泉",
    "老师教文学和艺术",
    "戏剧是古老的艺术形式",
]
CHARACTERS = sorted(set("".join(CORPUS)))
END = len(CHARACTERS)
# Confused because they sound similar (yī, yì; xíng; shì, shī) or look similar.
CONFUSIONS = ["医艺", "形行", "式诗是", "术木", "生声"]


def ids(text: str) -> tuple[int, ...]:
    return tuple(CHARACTERS.index(c) for c in text)


def text(found: tuple[int, ...]) -> str:
    return "".join(CHARACTERS[id] for id in found)


@pytest.fixture(scope="module")
def bigrams() -> TableStepper:
    v = END + 1
    counts = torch.full((v + 1, v), 0.001, dtype=torch.float64)
    for line in CORPUS:
        for before, after in zip((v, *ids(line)), (*ids(line), END), strict=True):
            counts[before, after] += 1
    return TableStepper(counts.log() - counts.sum(dim=1, keepdim=True).log(), END)


@pytest.fixture(scope="module")
def channel() -> EditChannel:
    known = [[c for c in group if c in CHARACTERS] for group in CONFUSIONS]
    confusions = {CHARACTERS.index(a): [CHARACTERS.index(b) for b in group] for group in known for a in group}
    return EditChannel(range(END), END + 1, insert=0.05, delete=0.05, substitute=0.05, confusions=confusions)


@pytest.mark.parametrize(
    ("observed", "meant"),
    [
        ("文学是一种医术形式", "文学是一种艺术形式"),  # a homophone
        ("文学是一种艺形术式", "文学是一种艺术形式"),  # swapped
        ("音乐一种艺术形式", "音乐是一种艺术形式"),  # left out
        ("他的医医术很好", "他的医术很好"),  # written twice
        ("医生学习医术", "医生学习医术"),  # nothing to correct: 医 is correct here
    ],
)
def test_correct_finds_the_intended_text(
    bigrams: TableStepper, channel: EditChannel, observed: str, meant: str
) -> None:
    schedule = AnnealingSchedule(steps=150, burn_in=50, chains=16)
    found = correct(bigrams, channel, ids(observed), schedule, np.random.default_rng(5))
    assert text(found.ids) == meant
    assert found.probability == max(found.alternatives().values())
    before, after = found.log_weights
    assert after >= before
    target = NoisyChannelPosterior(bigrams, channel, ids(observed))
    assert target.log_weights([ids(observed), found.ids]) == pytest.approx([before, after])
    assert 0 < found.samples.accepted["all"] < 1
    assert 1 <= found.samples.effective <= 2400


def test_correct_result_is_not_improved_by_a_single_edit(bigrams: TableStepper, channel: EditChannel) -> None:
    observed = ids("文学是一种医术形式")
    best = correct(bigrams, channel, observed, AnnealingSchedule(150, 50, chains=16), np.random.default_rng(5)).ids
    edits = [(*best[:i], c, *best[i + n :]) for i in range(len(best)) for n in (0, 1) for c in range(END)]
    edits += [(*best[:i], *best[i + 1 :]) for i in range(len(best))]
    target = NoisyChannelPosterior(bigrams, channel, observed)
    assert target.log_weights([best])[0] == max(target.log_weights([*edits, best]))
