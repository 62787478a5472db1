"""The shipped corpus is what its README says: whole, well tagged, without leaks, and hard enough."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from functools import cache
from itertools import combinations

import pytest

from catena.data.detect import detect_format
from catena.data.examples import Columns, LabeledText
from catena.data.readers.conllu import read as read_conllu
from catena.data.samples.corpus import SPLITS, load_sample, load_tagged_sample, sample_names, sample_path
from catena.errors import UnknownNameError
from tests.oracle.dependency import is_projective, is_tree

labeled_sample = cache(load_sample)
tagged_sample = cache(load_tagged_sample)


@cache
def texts() -> list[tuple[str, str]]:
    return [(split, example.text) for split in SPLITS for example in labeled_sample(split)]


def folded(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def intents(split: str) -> Counter[str]:
    return Counter(label for example in labeled_sample(split) for label in example.labels)


def tags_of(split: str) -> list[tuple[str, ...]]:
    return [sentence.column(1) for sentence in tagged_sample(split)]


def slots(split: str) -> Counter[str]:
    return Counter(tag[2:] for tags in tags_of(split) for tag in tags if tag.startswith("B-"))


def readme() -> str:
    return sample_path("assistant/README.md").read_text(encoding="utf-8")


def table_of_readme(title: str) -> dict[str, list[int]]:
    """The counts of the table under a heading: train, dev, test, all."""
    section = readme().split(f"\n## {title}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0].strip("`"): [int(cell) for cell in row[2:]] for row in rows[2:]}


# --- reading it ---------------------------------------------------------------------------------------------


def test_every_sentence_has_one_intent_and_a_text() -> None:
    assert len(SPLITS) > 0
    for split in SPLITS:
        for example in labeled_sample(split):
            assert isinstance(example, LabeledText)
            assert len(example.labels) == 1, example
            assert example.text == " ".join(example.text.split()) != "", example


def test_the_tagged_sentences_are_the_labeled_ones_in_the_same_order() -> None:
    assert len(SPLITS) > 0
    for split in SPLITS:
        for tagged, labeled in zip(tagged_sample(split), labeled_sample(split), strict=True):
            assert isinstance(tagged, Columns)
            assert tagged.comments == (f"# intent = {labeled.labels[0]}", f"# text = {labeled.text}"), tagged.location


def test_the_tokens_are_the_text_without_its_blanks() -> None:
    assert len(SPLITS) > 0
    for split in SPLITS:
        for tagged, labeled in zip(tagged_sample(split), labeled_sample(split), strict=True):
            tokens = tagged.column(0)
            assert "".join(tokens) == labeled.text.replace(" ", ""), tagged.location
            assert not any(" " in token for token in tokens), tagged.location


def test_no_word_carries_its_punctuation() -> None:
    assert len(SPLITS) > 0
    for split in SPLITS:
        for sentence in tagged_sample(split):
            for token in sentence.column(0):
                assert not re.fullmatch(r"\w.*[,;:?!.']|[,;:?!.'].*\w", token), (sentence.location, token)


def test_the_formats_are_recognized() -> None:
    for split in SPLITS:
        assert detect_format(sample_path(f"assistant/{split}.tsv")).format == "tsv"
        assert detect_format(sample_path(f"assistant/{split}.conll")).format == "columns"


def test_the_names_of_the_files() -> None:
    parts = [f"assistant/{split}.{ending}" for split in SPLITS for ending in ("tsv", "conll")]
    assert [name for name in sample_names() if name.startswith("assistant/")] == sorted(["assistant/README.md", *parts])


def test_unknown_file_suggests_nearest() -> None:
    with pytest.raises(
        UnknownNameError, match=r"Unknown sample file .*tran\.tsv': did you mean 'assistant/train\.tsv'"
    ):
        sample_path("assistant/tran.tsv")
    with pytest.raises(UnknownNameError, match="Unknown sample file"):
        sample_path("corpus.py")


@pytest.mark.parametrize("load", [load_sample, load_tagged_sample])
def test_unknown_split_lists_splits(load) -> None:
    with pytest.raises(
        UnknownNameError, match="Unknown split 'validation' of the sample: known are 'dev', 'test', 'train'"
    ):
        load("validation")


# --- what it holds ------------------------------------------------------------------------------------------


def test_sizes() -> None:
    train, dev, test = (len(labeled_sample(split)) for split in SPLITS)
    assert train + dev + test >= 1000
    assert 0.63 <= train / (train + dev + test) <= 0.70
    assert 140 <= dev <= 170
    assert 190 <= test <= 220


def test_every_intent_is_in_every_split_in_the_same_share() -> None:
    total = sum((intents(split) for split in SPLITS), Counter[str]())
    assert 14 <= len(total) <= 18
    assert all(30 <= count <= 110 for count in total.values()), total
    for split in SPLITS:
        share = len(labeled_sample(split)) / len(texts())
        for intent, count in total.items():
            assert abs(intents(split)[intent] - share * count) <= 1.5, (split, intent)


def test_every_slot_is_in_every_split() -> None:
    for split in SPLITS:
        assert set(slots(split)) == set(slots("train"))
    assert 15 <= len(slots("train")) <= 20


def test_every_tag_sequence_is_valid_bio() -> None:
    assert len(SPLITS) > 0
    for split in SPLITS:
        for sentence in tagged_sample(split):
            before = "O"
            for tag in sentence.column(1):
                assert re.fullmatch(r"O|[BI]-[a-z]+", tag), (sentence.location, tag)
                if tag.startswith("I-"):
                    assert before[2:] == tag[2:], f"{sentence.location} has {tag} after {before}"
                before = tag


def test_a_good_part_of_the_tokens_is_in_slots() -> None:
    tags = [tag for split in SPLITS for sequence in tags_of(split) for tag in sequence]
    assert sum(tag != "O" for tag in tags) / len(tags) >= 0.25


def test_the_readme_counts_right() -> None:
    for title, count in (("Intents", intents), ("Slots", slots)):
        table = table_of_readme(title)
        counts = [count(split) for split in SPLITS]
        total = table.pop("all")
        assert set(table) == set(counts[0])
        for name, row in table.items():
            assert row == [*(c[name] for c in counts), sum(c[name] for c in counts)], name
        assert total == [*(c.total() for c in counts), sum(c.total() for c in counts)]
    tokens = sum(len(sequence) for split in SPLITS for sequence in tags_of(split))
    assert f"\n{len(texts()):,} English sentences" in readme()
    assert f"{tokens:,} tokens" in readme()


# --- what it is good for ------------------------------------------------------------------------------------


def test_sentences_differ_by_more_than_case_and_punctuation() -> None:
    seen = Counter(" ".join(folded(text)) for _, text in texts())
    assert [text for text, count in seen.items() if count > 1] == []


def nearly_the_same(a: list[str], b: list[str]) -> bool:
    shared, all_words = len(set(a) & set(b)), len(set(a) | set(b))
    if shared / all_words >= 0.8:
        return True
    matcher = difflib.SequenceMatcher(None, " ".join(a), " ".join(b), autojunk=False)
    return matcher.real_quick_ratio() >= 0.9 and matcher.quick_ratio() >= 0.9 and matcher.ratio() >= 0.9


@pytest.mark.parametrize(
    ("a", "b", "near"),
    [
        ("set the alarm for seven", "set an alarm for the seven", True),  # words: 5 of 6
        ("wake me at seventeen past", "wake me at seventeen pasta", True),  # letters
        ("wake me at six", "wake me at noon", False),
    ],
)
def test_what_nearly_the_same_means(a: str, b: str, near: bool) -> None:
    assert nearly_the_same(folded(a), folded(b)) is near


def test_no_sentence_nearly_stands_in_another_split() -> None:
    words = {text: folded(text) for _, text in texts()}
    leaks = [
        (a, b)
        for (split_a, a), (split_b, b) in combinations(texts(), 2)
        if split_a != split_b and nearly_the_same(words[a], words[b])
    ]
    assert leaks == []


def test_a_bag_of_words_learns_it_but_not_all_of_it() -> None:
    """scikit-learn as a stranger: below 70 % it would be a riddle, above 95 % nothing is left to gain."""
    pytest.importorskip("sklearn")
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(CountVectorizer(), LogisticRegression(max_iter=1000))
    train, test = labeled_sample("train"), labeled_sample("test")
    model.fit([e.text for e in train], [e.labels[0] for e in train])
    accuracy = model.score([e.text for e in test], [e.labels[0] for e in test])
    assert 0.70 <= accuracy <= 0.95
    told = re.search(r"gets about (\d+) % of the test sentences", readme())
    assert told is not None
    assert 100 * accuracy == pytest.approx(int(told[1]), abs=2)


# --- the garden treebank ----------------------------------------------------------------------------------------------


def test_the_garden_holds_trees_and_as_many_as_its_readme_says() -> None:
    readme = sample_path("garden/README.md").read_text(encoding="utf-8")
    for split in ("train", "test"):
        sentences = list(read_conllu(sample_path(f"garden/{split}.conllu")))
        words = sum(len(sentence.words) for sentence in sentences)
        assert re.search(rf"{len(sentences)} in\s+{split} \({words} words\)", readme)
        for sentence in sentences:
            heads = {int(word.id): int(word.head) for word in sentence.words}
            assert sum(head == 0 for head in heads.values()) == 1
            assert is_tree(heads), sentence.location
            assert [word.deprel for word in sentence.words if word.head == "0"] == ["root"]
            crossing = not is_projective(heads)
            assert crossing == (sentence.comment("text") == "A letter arrived yesterday about the trees.")
