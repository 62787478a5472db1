"""Results of distributions equal enumeration over all tag sequences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from catena.data.schemes import BILOU, IOB2, Dialect, Span, tags_to_spans
from catena.data.vocabulary import Labels
from catena.errors import DataError, ImpossibleError
from catena.numerics import NEG_INF
from catena.structure.chain import LinearChain
from catena.structure.semimarkov import SemiMarkov
from catena.tasks.tag.distribution import ChainDistribution, SegmentDistribution, TagDistribution, own_spans
from catena.tasks.tag.structures import SegmentKinds
from catena.tasks.tag.tag_set import TagSet

LENGTHS = [3, 2, 1]
NAMES = {
    "iob2": ("B-A", "B-B", "I-A", "I-B", "O"),
    "bilou": ("B-A", "B-B", "I-A", "I-B", "L-A", "L-B", "O", "U-A", "U-B"),
}


def chain_distribution(own: Dialect) -> ChainDistribution:
    tagging = TagSet(Labels(NAMES[own.scheme]), own, own)
    k, draw = len(tagging.names), torch.Generator().manual_seed(5)
    rules = tagging.rules()
    assert rules is not None
    scores = [torch.randn(size, generator=draw, dtype=torch.float64) for size in ((k, k), (k,), (k,))]
    after, begin, end = (torch.where(torch.from_numpy(r), s, NEG_INF) for r, s in zip(rules, scores, strict=True))
    emissions = torch.randn(3, 3, k, generator=draw, dtype=torch.float64)
    chain = LinearChain(emissions, after, begin, end, lengths=torch.tensor(LENGTHS))
    return ChainDistribution(chain, tagging, LENGTHS)


def segment_distribution(own: Dialect) -> SegmentDistribution:
    tagging = TagSet(Labels(NAMES[own.scheme]), own, own)
    kinds, draw = SegmentKinds(tagging.names.names, own), torch.Generator().manual_seed(6)
    segments = torch.randn(3, 3, 3, 3, generator=draw, dtype=torch.float64)
    segments[:, :, 1:, 2] = NEG_INF
    transitions = torch.randn(3, 3, generator=draw, dtype=torch.float64)
    return SegmentDistribution(
        SemiMarkov(segments, transitions, lengths=torch.tensor(LENGTHS)), kinds, tagging, LENGTHS
    )


def cases() -> list[TagDistribution]:
    return [make(own) for make in (chain_distribution, segment_distribution) for own in (IOB2, BILOU)]


def listed(distribution: TagDistribution) -> list[list[tuple[list[str], float]]]:
    """All tag sequences of each sentence with their probabilities, best first."""
    everything = distribution.n_best(80)
    assert all(everything)
    return [[(tags, math.exp(p)) for tags, p in some] for some in everything]


@pytest.mark.parametrize("number", range(4))
def test_all_sequences_are_listed_once_and_sum_to_one(number: int) -> None:
    distribution = cases()[number]
    for some, best in zip(listed(distribution), distribution.best(), strict=True):
        assert sum(p for _, p in some) == pytest.approx(1.0, abs=1e-9)
        assert len({tuple(tags) for tags, _ in some}) == len(some)
        assert some[0][0] == best
        assert [p for _, p in some] == sorted((p for _, p in some), reverse=True)


@pytest.mark.parametrize("number", range(4))
def test_tag_and_span_probabilities_equal_enumeration(number: int) -> None:
    distribution = cases()[number]
    own, names = distribution.tagging.own, distribution.tagging.names
    assert own is not None
    tables = distribution.tag_probabilities()
    wanted = [[Span(i, j, kind) for i in range(n) for j in range(i + 1, n + 1) for kind in ("A", "B")] for n in LENGTHS]
    chances = distribution.span_probabilities(wanted)
    for some, table, spans, found, n in zip(listed(distribution), tables, wanted, chances, LENGTHS, strict=True):
        expected = np.zeros((n, len(names)))
        for tags, p in some:
            expected[np.arange(n), names.ids(tags)] += p
        np.testing.assert_allclose(table, expected, atol=1e-9)
        for span, chance in zip(spans, found, strict=True):
            held = sum(p for tags, p in some if span in tags_to_spans(tags, own.scheme))
            assert chance == pytest.approx(held, abs=1e-9), span


@pytest.mark.parametrize("number", range(4))
def test_given_tags_condition_the_distribution(number: int) -> None:
    distribution = cases()[number]
    tagging = distribution.tagging
    known: list[list[str | None]] = [[None, "O", None], [None, None], ["O"]]
    masks = [tagging.allowed(["w"] * len(tags), tags) for tags in known]
    for some, under, tags in zip(listed(distribution), listed(distribution.given(masks)), known, strict=True):
        kept = {tuple(y): p for y, p in some if all(a in (None, b) for a, b in zip(tags, y, strict=True))}
        assert {tuple(y) for y, _ in under} == set(kept)
        for y, p in under:
            assert p == pytest.approx(kept[tuple(y)] / sum(kept.values()), abs=1e-9)


@pytest.mark.parametrize("number", range(4))
def test_sample_frequencies_equal_probabilities(number: int) -> None:
    distribution = cases()[number]
    drawn = distribution.samples(2000, torch.Generator().manual_seed(1))[1]
    for tags, p in listed(distribution)[1][:4]:
        share = sum(one == tags for one, _ in drawn) / len(drawn)
        assert share == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / len(drawn)) + 1e-9)
    again = distribution.samples(3, torch.Generator().manual_seed(1))
    assert again == distribution.samples(3, torch.Generator().manual_seed(1))


def test_impossible_given_tags_are_rejected() -> None:
    distribution = chain_distribution(IOB2)
    tags: list[list[str | None]] = [["O", "I-A", None], [None, None], [None]]
    masks = [distribution.tagging.allowed(["w"] * len(one), one) for one in tags]
    with pytest.raises(ImpossibleError, match="The given tags allow no tag sequence for sentence 1"):
        distribution.given(masks)
    with pytest.raises(DataError, match="the tag 'B-C' of word 2, 'w', is not a tag of this model"):
        distribution.tagging.allowed(["w", "w"], [None, "B-C"])


def test_sentence_without_allowed_tags_is_reported() -> None:
    tagging = TagSet(Labels(("B", "E")), Dialect("bilou", "M", "E", "S"), Dialect("bilou", "M", "E", "S"))
    rules = tagging.rules()
    assert rules is not None
    after, begin, end = (torch.where(torch.from_numpy(r), 0.0, NEG_INF) for r in rules)
    chain = LinearChain(torch.zeros(1, 1, 2), after, begin, end, lengths=torch.tensor([1]))
    with pytest.raises(DataError, match="No tag sequence that the scheme allows fits a sentence of 1 word"):
        ChainDistribution(chain, tagging, [1]).best()


def test_spans_of_the_models_tags() -> None:
    tagging = TagSet(Labels(NAMES["iob2"]), IOB2, IOB2, constrain=False)
    assert own_spans(tagging, ["B-A", "I-A", "O"]) == [Span(0, 2, "A")]
    assert own_spans(tagging, ["O", "I-A", "O"]) == [Span(1, 2, "A")]  # as conlleval reads it
    assert own_spans(TagSet(Labels(("N", "V")), None, None), ["N", "V"]) == []
