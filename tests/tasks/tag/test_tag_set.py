"""Conversion between the tags of files and of the model, and errors with file and line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from catena.data.examples import SourceLocation
from catena.data.schemes import BILOU, IOB1, IOB2
from catena.data.vocabulary import Labels
from catena.errors import CheckpointError, DataError
from catena.tasks.tag.config import TagSchemeConfig
from catena.tasks.tag.tag_set import TagSet, detect_scheme, find_tagging

AT = SourceLocation("train.conll", 10)


def placed(*sentences: str) -> list[tuple[list[str], SourceLocation]]:
    return [(one.split(), SourceLocation("train.conll", 10 * (i + 1))) for i, one in enumerate(sentences)]


def found(*sentences: str, **settings: object) -> TagSet:
    return find_tagging(TagSchemeConfig.model_validate(settings), placed(*sentences), lemmas=False, segment=False)


@pytest.mark.parametrize(
    ("sentences", "scheme"),
    [
        (("B-A I-A O", "O"), "iob2"),
        (("I-A I-A B-A O",), "iob1"),
        (("B-A L-A O U-B",), "bilou"),
        (("B-A E-A S-B",), "bilou"),
        (("N V N",), "plain"),
        (("O O",), "plain"),
        (("B-A X-A",), "plain"),
    ],
)
def test_detect_scheme(sentences: tuple[str, ...], scheme: str) -> None:
    tags = {tag for tags, _ in placed(*sentences) for tag in tags}
    assert detect_scheme(placed(*sentences), tags, None) == scheme


@pytest.mark.parametrize("hole", ["?", "_"])
def test_placeholder_among_spans_needs_the_option_unknown(hole: str) -> None:
    with pytest.raises(DataError, match=rf"train\.conll:21: '\{hole}' does not encode a span.*--unknown '\{hole}'"):
        found("B-A I-A", f"O {hole} B-A")
    assert found("B-A I-A", f"O {hole} B-A", unknown=hole).files == IOB2
    assert found("B-A I-A", f"O {hole} B-A", scheme="plain").files is None
    assert found(f"N V {hole}").files is None


@pytest.mark.parametrize(
    ("sentence", "name"), [("S-A B-A I-A E-A", "bioes"), ("U-A B-A I-A L-A", "bilou"), ("S-A B-A M-A E-A", "bmes")]
)
def test_schemes_have_the_name_of_their_letters(sentence: str, name: str) -> None:
    assert found(sentence, "O O").describe_scheme() == name


def test_tags_of_no_scheme_are_repaired_unless_some_are_unknown() -> None:
    tagging = found("O B-A I-A", "O O I-B")
    assert tagging == found("O B-A I-A", "O O I-B", repair=True)
    assert tagging.repair
    assert tagging.describe_scheme() == "iob2, with invalid spans read as conlleval reads them"
    assert not found("O B-A I-A", "O O B-B").repair
    with pytest.raises(DataError) as caught:
        found("O B-A I-A", "O O I-B", "? O O", unknown="?")
    words = str(caught.value)
    assert words.startswith("train.conll:22: 'I-B' after 'O' begins a span with I instead of B-B (iob2); it is not")
    assert "it is not iob1 either, since at train.conll:11 'B-A' after 'O'" in words


def test_repair_mends_invalid_spans() -> None:
    tagging = found("O B-A I-A", "O O I-B", repair=True)
    assert tagging.learned(list("abc"), ["O", "O", "I-B"]) == ["O", "O", "B-B"]
    # Scores use the repaired tags: a prediction of B-B is correct.
    assert tagging.mended(["O", "O", "I-B"]) == ["O", "O", "B-B"]
    assert replace(tagging, repair=False).mended(["O", "O", "I-B"]) == ["O", "O", "I-B"]
    with pytest.raises(DataError, match=r"train.conll:12: 'I-B' after 'O'.*Correct it there, use --tags.scheme"):
        TagSet(Labels(()), IOB2, IOB2).learned(list("abc"), ["O", "O", "I-B"], AT)


def test_training_scheme_may_differ_from_the_files() -> None:
    for settings, sentence, learned in (
        ({}, "I-A I-A B-A O", "B-A I-A B-A O"),
        ({"training_scheme": "bilou"}, "B-A I-A B-A O", "B-A L-A U-A O"),
        ({"training_scheme": "iob2"}, "B-A E-A S-A O", "B-A I-A B-A O"),
    ):
        tagging = found(sentence, **settings)
        own = tagging.learned(list("wxyz"), sentence.split(), AT)
        assert own == learned.split()
        assert tagging.shown(list("wxyz"), own) == sentence.split()


def test_invalid_predictions_are_shown() -> None:
    tagging = TagSet(Labels(()), IOB2, BILOU, constrain=False)
    assert tagging.rules() is None
    assert tagging.shown(list("abc"), ["O", "L-A", "O"]) == ["O", "B-A", "O"]


def test_lemmas_convert_to_scripts_and_back() -> None:
    tagging = find_tagging(TagSchemeConfig(unknown="_"), placed("x"), lemmas=True, segment=False)
    own = tagging.learned(["Dogs", "ran", "x"], ["dog", "run", "_"])
    assert own == ["low|-0+|-1+", "low|-0+|-2+un", "_"]
    assert tagging.shown(["Cats", "ran"], own[:2]) == ["cat", "run"]


def test_unknown_tags_stay_and_adjacent_known_tags_are_checked() -> None:
    tagging = found("B-A ? O", "O B-A", unknown="?")
    assert tagging.learned(list("abc"), ["B-A", "?", "O"], AT) == ["B-A", "?", "O"]
    counted = TagSet(Labels(("B-A", "I-A", "O")), IOB2, IOB2, unknown="?")
    np.testing.assert_array_equal(counted.ids(["B-A", "?", "O"]), [0, -1, 2])
    with pytest.raises(DataError, match=r"train.conll:12: 'I-A' is not allowed there \(iob2\)"):
        tagging.learned(list("abc"), ["?", "O", "I-A"], AT)
    with pytest.raises(
        DataError, match="leaves gaps in sentences, so their tags cannot be converted from iob1 to iob2"
    ):
        found("I-A ? O", "I-A B-A", unknown="?")


def test_rules_follow_the_scheme() -> None:
    rules = TagSet(Labels(("B-A", "I-A", "I-B", "O")), IOB2, IOB2).rules()
    assert rules is not None
    after, begin, end = rules
    assert after.tolist() == [[1, 1, 0, 1], [1, 1, 0, 1], [1, 0, 1, 1], [1, 0, 0, 1]]
    assert begin.tolist() == [True, False, False, True]
    assert end.all()
    assert TagSet(Labels(("N", "V")), None, None).rules() is None


@pytest.mark.parametrize(
    ("files", "own", "tag", "allowed"),
    [
        (IOB2, IOB2, "I-A", {"I-A"}),
        (IOB2, BILOU, "B-A", {"B-A", "U-A"}),
        (IOB2, BILOU, "I-A", {"I-A", "L-A"}),
        (IOB1, IOB2, "I-A", {"B-A", "I-A"}),
        (IOB1, IOB2, "B-A", {"B-A"}),
        (BILOU, IOB2, "U-A", {"B-A"}),
        (IOB2, BILOU, "O", {"O"}),
    ],
)
def test_given_tag_allows_all_tags_shown_as_it(files: object, own: object, tag: str, allowed: set[str]) -> None:
    names = Labels(sorted({"O", *(f"{x}-{k}" for x in ("BI" if own is IOB2 else "BILU") for k in "AB")}))
    mask = TagSet(names, files, own).allowed(["w", "w"], [tag, None])  # type: ignore[arg-type]
    assert {name for name, may in zip(names.names, mask[0], strict=True) if may} == allowed
    assert mask[1].all()


def test_saved_tag_set_loads_equal(tmp_path: Path) -> None:
    for tagging in (
        TagSet(Labels(("B-A", "O"), (3, 4)), IOB1, IOB2, unknown="?", constrain=False),
        TagSet(Labels(("x", "y"), (1, 2)), None, None, lemmas=True),
    ):
        tagging.save(tmp_path)
        assert TagSet.load(tmp_path) == tagging
    (tmp_path / "tagging.json").write_text("{}", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"tagging.json cannot be read"):
        TagSet.load(tmp_path)
