"""Train word vectors on a small text, and query neighbors and analogies. Takes a few seconds.

python examples/word_vectors.py
"""

from __future__ import annotations

import random
from pathlib import Path

from catena.vectors import VectorTable, train_vectors
from catena.vectors.config import SkipGramConfig, VectorConfig, VectorTrainingConfig, WordConfig

PLACES = ("paris france french", "rome italy italian", "madrid spain spanish", "berlin germany german")
JOURNEYS = (
    "{city} is the capital of {country}",
    "they learn {tongue} at a school in {country}",
    "the mayor of {city} spoke {tongue}",
    "a train from {city} crosses {country}",
)
PEOPLE = {
    "man woman": "the {name} paid {own} bill and went home to the flat",
    "king queen": "the {name} put on {own} crown and sat on the throne of the palace",
    "prince princess": "the young {name} rode {own} pony around the palace",
    "father mother": "the {name} cooked for {own} children and cleaned the flat",
    "boy girl": "the young {name} carried {own} books to school",
    "brother sister": "the {name} shared {own} sweets with the other children",
}
THINGS = {
    "the {} grazed behind the barn and the farmer fed it hay": "cow sheep goat horse donkey",
    "a {} crept through the jungle and roared at the moon": "tiger lion leopard panther jaguar",
    "we met on {} and the shop was closed until noon": "monday tuesday wednesday thursday friday saturday sunday",
    "somebody painted the wall {} and hung a curtain of the same color": "red blue green yellow purple",
    "peel a ripe {} and squeeze its juice into a glass": "orange lemon apple peach pear",
    "the bus left at {} o'clock and arrived an hour later": "one two three four five six seven",
    "the {} tuned up before the orchestra played a slow waltz": "violin cello flute oboe trumpet",
}


def sentence(draw: random.Random) -> str:
    kind = draw.random()
    if kind < 0.35:
        pattern = draw.choice(list(THINGS))
        return pattern.format(draw.choice(THINGS[pattern].split()))
    if kind < 0.65:
        city, country, tongue = draw.choice(PLACES).split()
        return draw.choice(JOURNEYS).format(city=city, country=country, tongue=tongue)
    pair, side = draw.choice(list(PEOPLE)), draw.randrange(2)
    reason = draw.choice(["", f" because {('he', 'she')[side]} was tired"])
    return PEOPLE[pair].format(name=pair.split()[side], own=("his", "her")[side]) + reason


def write_stories(path: str | Path, lines: int = 6000) -> None:
    """Write a text of simple sentences, one per line."""
    draw = random.Random(7)
    Path(path).write_text("".join(sentence(draw) + "\n" for _ in range(lines)), encoding="utf-8")


def main() -> None:
    write_stories("stories.txt")
    settings = VectorConfig(
        threads=1,
        words=WordConfig(min_count=1),
        model=SkipGramConfig(d=30),
        training=VectorTrainingConfig(epochs=10, learning_rate=0.05),
    )
    trained = train_vectors(["stories.txt"], settings)
    vectors = VectorTable.of_model(trained.model)
    print(f"{len(vectors)} words; loss by epoch: {', '.join(f'{loss:.3f}' for loss in trained.losses)}")
    for word in ("monday", "tiger", "paris", "violin"):
        print(f"{word}: {', '.join(near for near, _ in vectors.most_similar(word, 4))}")
    for a, b, c in (("man", "king", "woman"), ("paris", "france", "rome"), ("france", "french", "spain")):
        print(f"{a} is to {b} as {c} is to {vectors.analogy(a, b, c, 1)[0][0]}")
    print(f"not like the others: {vectors.odd_one_out(['monday', 'friday', 'tiger', 'sunday'])}")


if __name__ == "__main__":
    main()
