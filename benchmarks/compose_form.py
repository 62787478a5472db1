"""Fraction of composed sonnets that keep their form, counted by rules written separately from Catena.

    catena compose RUN --dictionary cmudict.dict --poems 20 --format jsonl > poems.jsonl
    python benchmarks/compose_form.py poems.jsonl lines.txt --dictionary cmudict.dict

A JSON file has one poem a line, as ``catena compose --format jsonl`` writes it. Any other file is read as verse without
stanzas, for comparison: every fourteen nonblank lines are one poem. Reads the dictionary itself and imports nothing
from Catena. A poem keeps its form if it has

- *lines*: fourteen lines of words in the dictionary;
- *meter*: in every line, some choice of pronunciations has ten syllables, in which each word of several syllables has
  its primary stress on an even syllable, and its unstressed syllables next to a stressed one on odd syllables;
- *rhyme*: the lines of ABAB CDCD EFEF GG end in different words with pronunciations that are equal from the last
  stressed vowel on, but differ in the consonants before it.

Tested in tests/niche/verse/test_form_count.py.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
from collections.abc import Sequence
from pathlib import Path

SCHEME = "ababcdcdefefgg"
PAIRS = [(i, j) for i, j in itertools.combinations(range(len(SCHEME)), 2) if SCHEME[i] == SCHEME[j]]
"""The pairs of lines that rhyme."""
SYLLABLES = 10

Sounds = dict[str, list[list[str]]]
"""The pronunciations of each word, each a list of phonemes."""


def read_sounds(path: Path) -> Sounds:
    """The pronunciations of a dictionary such as cmudict.dict."""
    sounds: Sounds = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        word, *phonemes = line.partition("#")[0].split()
        sounds.setdefault(re.sub(r"\(\d+\)$", "", word.lower()), []).append(phonemes)
    return sounds


def words_of(line: str) -> list[str]:
    return re.findall(r"[a-z'-]+", line.lower())


def fits(stresses: str, before: int) -> bool:
    """Whether a word with these stress digits fits an iambic line that has ``before`` syllables before it."""
    if len(stresses) == 1:
        return True
    for i, digit in enumerate(stresses):
        is_even = (before + i + 1) % 2 == 0
        neighbors = stresses[max(0, i - 1) : i + 2].replace("0", "")
        if (digit == "1" and not is_even) or (digit == "0" and neighbors and is_even):
            return False
    return True


def is_iambic(line: str, sounds: Sounds) -> bool:
    """Whether some choice of pronunciations makes the line an iambic pentameter."""
    reached = {0}
    for word in words_of(line):
        stresses = {"".join(re.findall(r"\d", " ".join(phonemes))) for phonemes in sounds.get(word, [])}
        reached = {n + len(marks) for n in reached for marks in stresses if marks and fits(marks, n)}
    return SYLLABLES in reached


def split_rhyme(phonemes: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The consonants before the last stressed vowel, and the sounds from it on without their stress."""
    last = max((i for i, sound in enumerate(phonemes) if sound[-1] in "12"), default=None)
    if last is None:
        return (), ()
    first = last
    while first and not phonemes[first - 1][-1].isdigit():
        first -= 1
    return tuple(phonemes[first:last]), tuple(sound.rstrip("012") for sound in phonemes[last:])


def rhyme(first: str, second: str, sounds: Sounds) -> bool:
    """Whether two lines end in words that rhyme."""
    a, b = words_of(first)[-1:], words_of(second)[-1:]
    ways = itertools.product(*(map(split_rhyme, sounds.get("".join(word), [])) for word in (a, b)))
    return a != b and any(tail and tail == other and onset != before for (onset, tail), (before, other) in ways)


def judge(poem: Sequence[str], sounds: Sounds) -> tuple[bool, bool, bool]:
    """Whether a poem has the lines, the meter and the rhymes of a sonnet."""
    complete = len(poem) == len(SCHEME)
    known = complete and all(words_of(line) and all(word in sounds for word in words_of(line)) for line in poem)
    return (
        known,
        all(is_iambic(line, sounds) for line in poem),
        complete and all(rhyme(poem[i], poem[j], sounds) for i, j in PAIRS),
    )


def read_poems(path: Path) -> list[list[str]]:
    """The lines of each poem of a file."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if path.suffix == ".jsonl":
        return [[line for stanza in json.loads(row)["stanzas"] for line in stanza] for row in lines]
    return [lines[i : i + len(SCHEME)] for i in range(0, len(lines) - len(SCHEME) + 1, len(SCHEME))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--dictionary", type=Path, required=True)
    options = parser.parse_args()
    sounds = read_sounds(options.dictionary)
    print(f"{'':30}{'poems':>8}{'in form':>10}{'lines':>8}{'meter':>8}{'rhyme':>8}", end="")
    print(f"{'iambic lines':>14}{'rhyming pairs':>15}")
    for path in options.files:
        poems = read_poems(path)
        judged = [judge(poem, sounds) for poem in poems]
        iambic = [is_iambic(line, sounds) for poem in poems for line in poem]
        pairs = [rhyme(poem[i], poem[j], sounds) for poem in poems for i, j in PAIRS if j < len(poem)]
        counts = [sum(map(all, judged)), *(sum(one[i] for one in judged) for i in range(3))]
        print(
            f"{path.name:30}{len(poems):>8}{counts[0]:>10}{counts[1]:>8}{counts[2]:>8}{counts[3]:>8}"
            f"{f'{sum(iambic)}/{len(iambic)}':>14}{f'{sum(pairs)}/{len(pairs)}':>15}"
        )


if __name__ == "__main__":
    main()
