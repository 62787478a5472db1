"""Item words and meters of words, by counting and enumeration."""

from __future__ import annotations

import itertools
import random

import pytest

from catena.niche.verse.prosody import EITHER, Pronunciation
from catena.tasks.compose.data import ItemWordModel, normalize_word


@pytest.mark.parametrize("seed", range(5))
def test_item_words_follow_the_formula(seed: int) -> None:
    """Texts have them when they are on the agenda, at least half of the time and three times as often as otherwise."""
    chosen = random.Random(seed)
    words = ["ham", "rice", "cup", "bowl", "lamb"]
    examples = []
    for _ in range(12):
        items = [chosen.sample(words, chosen.randint(0, 2)) for _ in range(2)]
        examples.append((items, [word for word in words if chosen.random() < chosen.choice([0.2, 0.8])]))
    naming = ItemWordModel.learn(examples)
    seen = {word for items, _ in examples for item in items for word in item}
    assert naming.probabilities.keys() == {normalize_word(word) for word in seen}
    for word in seen:
        on = [word in text for items, text in examples if any(word in item for item in items)]
        off = [word in text for items, text in examples if not any(word in item for item in items)]
        probability, otherwise = (sum(on) + 0.5) / (len(on) + 1), (sum(off) + 0.5) / (len(off) + 1)
        assert naming.probabilities[normalize_word(word)] == pytest.approx(probability)
        assert (normalize_word(word) in naming.item_words) == (probability >= 0.5 and probability >= 3 * otherwise)


def test_mentioned_by_any_item_word() -> None:
    naming = ItemWordModel({"oliv": 0.9, "oil": 0.9, "cup": 0.1}, frozenset({"oliv", "oil"}))
    item = ["cup", "olive", "oil"]
    texts = (["olive"], ["oils"], ["cup"], [])
    assert [naming.mentioned([item], text) for text in texts] == [[True], [True], [False], [False]]
    assert [normalize_word(word) for word in ("gas", "glass", "berries", "berry", "By", "y")] == [
        "gas", "glass", "berri", "berri", "by", "y"]  # fmt: skip


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_meter_of_every_stress_pattern(n: int) -> None:
    """1 on strong syllables, 0 next to a stress on weak ones, others on either; one-syllable words anywhere."""
    for numbers in itertools.product("012", repeat=n):
        wanted = ""
        for i, number in enumerate(numbers):
            stressed = {j for j in (i - 1, i + 1) if 0 <= j < n and numbers[j] != "0"}
            wanted += "1" if number == "1" else "0" if number == "0" and stressed else "?"
        word = Pronunciation(tuple(f"AH{number}" for number in numbers))
        assert word.meter.translate({ord(EITHER): "?"}) == (wanted if n > 1 else "?"), numbers
