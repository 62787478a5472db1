from __future__ import annotations

import re
import statistics
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.findings import Finding, LengthSummary, Lines, TagTroubles


def test_a_finding_prints_its_first_lines() -> None:
    lines = Lines()
    assert list(lines.finding("x", "note", "[one|#]")) == []
    for number in (7, *range(1200, 1222)):
        lines.add(number)
    (finding,) = lines.finding("x", "warning", "[one is|# are] bad")
    assert str(finding).startswith("warning: 23 are bad: lines 7, 1,200, 1,201")
    assert str(finding).endswith(", 1,218, …")
    assert finding.to_dict()["lines"] == [7, *range(1200, 1219)]
    assert str(Finding("x", "note", "one is bad", 1, (7,))) == "note: one is bad: line 7"


@given(st.lists(st.integers(0, 300), min_size=1))
def test_lengths_equal_the_statistics_module(lengths: list[int]) -> None:
    counted = LengthSummary()
    for length in lengths:
        counted.add(length)
    summary = counted.summary()
    assert summary["median"] == statistics.median(lengths)
    assert summary["mean"] == pytest.approx(statistics.mean(lengths))
    assert (summary["min"], summary["max"]) == (min(lengths), max(lengths))
    bins = summary["histogram"]
    assert [b["count"] for b in bins] == [sum(b["from"] <= n <= b["to"] for n in lengths) for b in bins]
    assert sum(b["count"] for b in bins) == len(lengths)
    assert bins[0]["from"] <= min(lengths)
    assert max(lengths) <= bins[-1]["to"]
    assert all(left["to"] + 1 == right["from"] for left, right in pairwise(bins))


def test_no_lengths_no_summary() -> None:
    assert LengthSummary().summary() == {}


tag_lists = st.lists(st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y"]), min_size=1, max_size=8)


@given(tag_lists)
def test_iob2_is_kept_when_every_i_follows_its_own_chunk(tags: list[str]) -> None:
    troubles = TagTroubles()
    troubles.add(1, tags)
    loose = [
        i
        for i, tag in enumerate(tags, start=1)
        if tag[0] == "I" and (i == 1 or tags[i - 2] not in (tag, tag.replace("I-", "B-")))
    ]
    found = [finding for finding in troubles.findings(2) if finding.kind != "io"]
    if found:
        assert [line for f in found for line in f.lines] == loose
        assert sum(f.count for f in found) == len(loose)
    else:
        assert not loose or not any(tag.startswith("B-") for tag in tags)


@given(st.lists(st.sampled_from(["O", "B-X", "I-X", "E-X", "S-X", "B-Y", "E-Y"]), min_size=1, max_size=8))
def test_bioes_is_kept_when_the_tags_can_be_read_as_chunks(tags: list[str]) -> None:
    troubles = TagTroubles()
    troubles.add(1, [*tags, "S-Z"])
    whole = re.fullmatch(r"(O |S-X |B-X (I-X )*E-X |B-Y E-Y )*", "".join(tag + " " for tag in tags))
    assert any(finding.kind == "bio" for finding in troubles.findings(2)) == (whole is None)
