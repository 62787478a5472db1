"""Tokenizers: what they cut, what they keep, and that what can be undone is undone exactly."""

from __future__ import annotations

import pickle
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from catena.config import Config, parse
from catena.data.config import (
    BpeTokenizerConfig,
    ByteTokenizerConfig,
    CharacterTokenizerConfig,
    LemmaLanguage,
    StemLanguage,
    TokenizerConfig,
    UnigramTokenizerConfig,
    WhitespaceTokenizerConfig,
    WordTokenizerConfig,
)
from catena.data.tokenize import Tokenizer, build_tokenizer, load_tokenizer
from catena.data.tokenizers.subwords import in_one_order
from catena.errors import CheckpointError, ConfigError, DataError, MissingExtraError

FAMILY = "👨‍👩‍👧‍👦"
ANY_TEXT = st.text(st.characters(), max_size=60)
WRITTEN = st.text(st.sampled_from("abI dnt's’-.,:/@#()%019\"*é中の한\n\t!?…😀\u0301\u200d"), max_size=40) | st.text(
    max_size=40
)

TEXTS = [
    "the cat sat on the mat and the cat sat still",
    "a cat and a hat, the hat and the cat",
    "naïve cafés serve 12 cats and 345 hats",
    "lower lowest low, new newest newer",
] * 5
ALL_KINDS = [
    WhitespaceTokenizerConfig(),
    WordTokenizerConfig(),
    CharacterTokenizerConfig(),
    ByteTokenizerConfig(),
    BpeTokenizerConfig(size=300),
    UnigramTokenizerConfig(size=300),
]


def words(text: str, **options: str | bool) -> list[str]:
    return build_tokenizer(WordTokenizerConfig.model_validate(options)).tokens(text)


# --- words ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("don't", "do n't"),
        ("can't", "ca n't"),
        ("won't", "wo n't"),
        ("it's", "it 's"),
        ("we'll", "we 'll"),
        ("I'd", "I 'd"),
        ("they've", "they 've"),
        ("you're", "you 're"),
        ("I'm", "I 'm"),
        ("shouldn't've", "should n't 've"),
        ("who'd've", "who 'd 've"),
        ("DON'T", "DO N'T"),
        ("don’t", "do n’t"),
        ("mother-in-law's", "mother-in-law 's"),
        ("dogs' tails", "dogs ' tails"),
        ("O'Brien's o'clock", "O'Brien 's o'clock"),
        ("rock'n'roll", "rock'n'roll"),
        ("do n't it 's", "do n't it 's"),
        ("'tis 'em", "'tis 'em"),
    ],
)
def test_english_contractions_are_cut_in_two(text: str, tokens: str) -> None:
    assert words(text) == tokens.split()


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("A 11-year-old boy; 12345*54321=670592745", "A 11-year-old boy ; 12345 * 54321 = 670592745"),
        ("3.14, 1,000 and 50%.", "3.14 , 1,000 and 50 % ."),
        ("$5.50 at 12:30, -5 or (-3) but 2-3 and .5", "$ 5.50 at 12:30 , -5 or ( -3 ) but 2-3 and .5"),
        ("in 2020. Then 3rd, the 90s", "in 2020 . Then 3rd , the 90s"),
        ("v1.2.3", "v1.2.3"),
    ],
)
def test_numbers_stay_whole(text: str, tokens: str) -> None:
    assert words(text) == tokens.split()


def test_digits_may_be_split_or_folded() -> None:
    assert words("12345*54321", digits="split") == list("12345*54321")
    assert words("11-year-old 3.14", digits="split") == ["1", "1", "-year-old", "3", ".", "1", "4"]
    assert words("11-year-old 1984", digits="fold") == ["00-year-old", "0000"]
    assert build_tokenizer(WhitespaceTokenizerConfig(digits="split")).tokens("a12 b") == ["a", "1", "2", "b"]
    assert build_tokenizer(CharacterTokenizerConfig(digits="fold")).tokens("a12") == ["a", "0", "0"]
    split = build_tokenizer(BpeTokenizerConfig(size=300, digits="split"), ["12 12 12 12 1212"] * 9)
    assert split.tokens("1212") == ["1", "2", "1", "2"]


def test_hyphens_may_be_cut() -> None:
    assert words("11-year-old", hyphens="split") == ["11", "-", "year", "-", "old"]
    assert words("well-known -- yes", hyphens="keep") == ["well-known", "--", "yes"]


@pytest.mark.parametrize(
    "whole",
    [
        "https://example.org/a_(b)?c=d&e=f#g",
        "http://localhost:8080/x",
        "www.example.co.uk/path",
        "https://de.example.org/wiki/Übung",
        "first.last+tag@sub-domain.example.com",
        "@someone",
        "#tag",
        "e.g.",
        "U.S.",
        "Dr.",
        FAMILY,
        "👍🏽",
        "❤️",
        "1️⃣",
        "🇩🇪",
        "...",
        "re\u0301sume\u0301",
        "हिन्दी",
        "한국어",
        "می‌خواهم",
    ],
)
def test_what_loses_its_sense_in_pieces_stays_whole(whole: str) -> None:
    assert words(whole) == [whole]
    assert words(f"({whole}), {whole}") == ["(", whole, ")", ",", whole]


def test_punctuation_after_an_address_is_not_part_of_it() -> None:
    text = "see https://a.org/b, www.a.org/c. Or (https://a.org/d_(e)): mail x@a.org!"
    tokens = "see https://a.org/b , www.a.org/c . Or ( https://a.org/d_(e) ) : mail x@a.org !"
    assert words(text) == tokens.split()


def test_emoji_and_flags_are_one_token_each() -> None:
    assert words(f"great{FAMILY}👍🏽🇩🇪🇫🇷!") == ["great", FAMILY, "👍🏽", "🇩🇪", "🇫🇷", "!"]


def test_scripts_without_blanks_are_cut_safely() -> None:
    assert words("我爱abc北京。") == ["我", "爱", "abc", "北", "京", "。"]
    assert words("日本語のテストです") == ["日", "本", "語", "の", "テスト", "です"]


@given(WRITTEN)
def test_words_lose_no_character_but_blanks(text: str) -> None:
    for hyphens in ("keep", "split"):
        tokens = words(text, hyphens=hyphens)
        assert "".join(tokens) == "".join(text.split())
        assert "" not in tokens


@pytest.mark.parametrize("piece", ["a.", "ab@", "http://(", "www.", "a'", "x", "中", "'", "-5", "http://x..."])
def test_a_long_line_without_blanks_takes_linear_time(piece: str) -> None:
    # Backtracking that grows with the square of the length would not end within the life of this test.
    assert "".join(words(piece * 30_000)) == piece * 30_000


@pytest.mark.parametrize(
    "text",
    [
        "I don't think it's 50%, or $5 (maybe less)!",
        'She said "we\'ll see..." and left "for good" too.',
        "中文很好。",
        "U.S. [sic] films; they've 'won' again?",
    ],
)
def test_joined_words_are_spaced_as_in_writing(text: str) -> None:
    tokenizer = build_tokenizer(WordTokenizerConfig())
    assert tokenizer.join(tokenizer.tokens(text)) == text


def test_joined_hyphens_are_closed_up() -> None:
    tokenizer = build_tokenizer(WordTokenizerConfig(hyphens="split"))
    assert tokenizer.join(tokenizer.tokens("a 11-year-old boy")) == "a 11-year-old boy"


# --- whitespace, characters, bytes -----------------------------------------------------------------------


@given(ANY_TEXT)
def test_whitespace_cuts_at_blanks_of_any_kind(text: str) -> None:
    tokens = build_tokenizer(WhitespaceTokenizerConfig()).tokens(text)
    assert tokens == text.split()
    assert build_tokenizer(WhitespaceTokenizerConfig()).tokens(" ".join(tokens)) == tokens


def test_characters_are_what_a_reader_sees() -> None:
    tokens = build_tokenizer(CharacterTokenizerConfig()).tokens(f"e\u0301中{FAMILY}각\u1112\u1161\u11ab \r\n🇩🇪")
    assert tokens == ["e\u0301", "中", FAMILY, "각", "\u1112\u1161\u11ab", " ", "\r\n", "🇩🇪"]
    assert build_tokenizer(CharacterTokenizerConfig()).tokens("ab\r\nc") == ["a", "b", "\r\n", "c"]


@given(ANY_TEXT)
@example("half \ud800 a pair")
def test_characters_and_bytes_come_back_exactly(text: str) -> None:
    for options in (CharacterTokenizerConfig(), ByteTokenizerConfig()):
        tokenizer = build_tokenizer(options)
        assert tokenizer.join(tokenizer.tokens(text)) == text


def test_bytes_are_the_256_of_utf8() -> None:
    tokenizer = build_tokenizer(ByteTokenizerConfig())
    assert tokenizer.tokens("Aé \n") == ["A", "<0xC3>", "<0xA9>", "<0x20>", "<0x0A>"]
    assert len(set(tokenizer.symbols)) == 256
    assert tokenizer.join(["<0xC3>", "A", "<unk>"]) == "\ufffdA\ufffd"


# --- what all share ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", ALL_KINDS, ids=lambda o: o.kind)
def test_case_and_normal_form_are_options_of_every_kind(options: TokenizerConfig) -> None:
    asked = options.model_copy(update={"lowercase": True, "normalize": "NFKC"})
    changed = build_tokenizer(asked, TEXTS)
    plain = build_tokenizer(options, [text.lower() for text in TEXTS])
    assert changed.tokens("ＦＵＬＬ ﬁne E\u0301") == plain.tokens("full fine é")
    composed = build_tokenizer(options.model_copy(update={"normalize": "NFC"}), TEXTS)
    assert composed.tokens("e\u0301 ﬁ") == build_tokenizer(options, TEXTS).tokens("é ﬁ")


@pytest.mark.parametrize("options", ALL_KINDS, ids=lambda o: o.kind)
def test_an_empty_text_has_no_tokens(options: TokenizerConfig) -> None:
    tokenizer = build_tokenizer(options, TEXTS)
    assert tokenizer.tokens("") == []
    assert tokenizer.join([]) == ""


@pytest.mark.parametrize("options", [*ALL_KINDS, WordTokenizerConfig(hyphens="split", lowercase=True)], ids=repr)
def test_a_loaded_tokenizer_is_the_one_that_was_saved(options: TokenizerConfig, tmp_path: Path) -> None:
    built = build_tokenizer(options, TEXTS)
    built.save(tmp_path / "tokenizer")
    loaded = load_tokenizer(tmp_path / "tokenizer")
    copied = pickle.loads(pickle.dumps(built))
    text = "The naïve cat doesn't sit — 11-year-old 中文"
    for other in (loaded, copied):
        assert isinstance(other, Tokenizer)
        assert other.settings == options
        assert other.tokens(text) == built.tokens(text)
        assert other.symbols == built.symbols


def test_damaged_folder_raises_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no config\.json"):
        load_tokenizer(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match="Cannot read"):
        load_tokenizer(tmp_path)
    (tmp_path / "config.json").write_text('{"format": 2, "settings": {}}')
    with pytest.raises(CheckpointError, match="format 1"):
        load_tokenizer(tmp_path)
    (tmp_path / "config.json").write_text('{"format": 1, "settings": {"kind": "wrods"}}')
    with pytest.raises(CheckpointError, match="did you mean 'words'"):
        load_tokenizer(tmp_path)
    build_tokenizer(BpeTokenizerConfig(size=300), TEXTS).save(tmp_path)
    (tmp_path / "tokenizer.json").write_text("[]")
    with pytest.raises(CheckpointError, match=r"Cannot read the tokenizer .*tokenizer\.json"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match=r"has no tokenizer\.json"):
        load_tokenizer(tmp_path)


# --- trained ----------------------------------------------------------------------------------------------


@pytest.fixture(
    scope="module", params=[BpeTokenizerConfig(size=300), UnigramTokenizerConfig(size=300)], ids=["bpe", "unigram"]
)
def trained(request: pytest.FixtureRequest) -> Tokenizer:
    return build_tokenizer(request.param, TEXTS)


@given(text=st.text(max_size=60))
def test_subwords_know_everything_and_come_back_exactly(trained: Tokenizer, text: str) -> None:
    tokens = trained.tokens(text)
    assert trained.join(tokens) == text
    assert set(tokens) <= set(trained.symbols)


def test_subwords_join_what_is_frequent(trained: Tokenizer) -> None:
    assert trained.tokens(" cat") == ["Ġcat"]
    assert trained.tokens("qxz") == ["q", "x", "z"]
    assert len(trained.symbols) <= 300


def test_pieces_are_shown_in_their_own_letters() -> None:
    tokenizer = build_tokenizer(BpeTokenizerConfig(size=300), ["Männer über Gebäude"] * 9)
    pieces = tokenizer.tokens("Männer über Gebäude")
    assert [tokenizer.shown(piece) for piece in pieces] == ["Männer", "▁über", "▁Gebäude"]
    odd = tokenizer.tokens("\n😀")
    assert [tokenizer.shown(piece) for piece in (*odd, "</s>")] == [*odd, "</s>"], "no whole letters, or no piece"
    assert build_tokenizer(WordTokenizerConfig()).shown("Ġ") == "Ġ"


def test_half_a_surrogate_pair_is_replaced(trained: Tokenizer) -> None:
    assert trained.join(trained.tokens("a\ud800b")) == "a\ufffdb"


@pytest.mark.parametrize(
    "options", [BpeTokenizerConfig(size=400), UnigramTokenizerConfig(size=400)], ids=["bpe", "unigram"]
)
def test_training_is_the_same_every_time(options: BpeTokenizerConfig | UnigramTokenizerConfig, tmp_path: Path) -> None:
    files = set()
    for i in range(4):
        build_tokenizer(options, iter(TEXTS)).save(tmp_path / str(i))
        files.add((tmp_path / str(i) / "tokenizer.json").read_bytes())
    assert len(files) == 1


def test_one_order_for_pieces_of_equal_score() -> None:
    # Bytes that were left over come 0.0001 apart in an order that changes from run to run.
    one = [("the", -2.0), ("b", -9.0), ("a", -8.9999), ("!", -8.9998), ("er", -9.0000000001), ("e", -3.0)]
    two = [("the", -2.0), ("b", -8.9998), ("a", -9.0), ("!", -8.9999), ("er", -9.0), ("e", -3.00000000001)]
    assert in_one_order(one) == in_one_order(two)
    assert in_one_order(one)[:2] == [("the", -2.0), ("e", -3.0)]
    assert dict(in_one_order(one))["a"] == pytest.approx(-9.0, abs=1e-3)


def test_training_needs_text() -> None:
    for options in (BpeTokenizerConfig(size=300), UnigramTokenizerConfig(size=300)):
        with pytest.raises(DataError, match="needs texts for training, got none"):
            build_tokenizer(options, ["", ""])


# --- stems and lemmas ---------------------------------------------------------------------------------------


def test_stems_and_lemmas_are_of_words_only() -> None:
    pytest.importorskip("snowballstemmer")
    pytest.importorskip("simplemma")
    assert words("Running runs, it's", stem="english") == ["run", "run", ",", "it", "'s"]
    assert words("www.x.org/Running 3rd", stem="english") == ["www.x.org/Running", "3rd"]
    assert words("Has apples", lemmatize="en") == ["have", "apple"]
    german = build_tokenizer(WhitespaceTokenizerConfig(stem="german"))
    assert german.tokens("Häuser Haus") == ["haus", "haus"]


def test_languages_equal_the_languages_of_the_libraries() -> None:
    snowball = pytest.importorskip("snowballstemmer")
    factory = pytest.importorskip("simplemma.strategies.dictionaries.dictionary_factory")
    assert set(get_args(StemLanguage)) <= set(snowball.algorithms())
    assert set(get_args(LemmaLanguage)) <= set(factory.SUPPORTED_LANGUAGES)


def test_no_stem_is_empty() -> None:
    pytest.importorskip("snowballstemmer")
    languages = get_args(StemLanguage)
    assert languages
    for language in languages:
        tokenizer = build_tokenizer(WhitespaceTokenizerConfig(stem=language))
        assert all(tokenizer.tokens("s a ss ing é я ا क")), language


def test_missing_library_raises_error_with_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "snowballstemmer", None)
    with pytest.raises(MissingExtraError, match=r"stemming needs .* pip install snowballstemmer simplemma"):
        build_tokenizer(WordTokenizerConfig(stem="english"))
    monkeypatch.setitem(sys.modules, "simplemma", None)
    with pytest.raises(MissingExtraError, match=r"lemmatization needs .* pip install snowballstemmer simplemma"):
        build_tokenizer(WordTokenizerConfig(lemmatize="en"))


# --- settings -----------------------------------------------------------------------------------------------


class Whole(Config):
    tokenizer: TokenizerConfig = WordTokenizerConfig()


def test_invalid_config_raises_error() -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.stem is 'englisch': did you mean 'english'"):
        parse(Whole, {"tokenizer": {"stem": "englisch"}})
    with pytest.raises(ConfigError, match="stem is an option of 'whitespace' and 'words', not of 'bytes'"):
        parse(Whole, {"tokenizer": {"kind": "bytes", "stem": "english"}})
    with pytest.raises(ConfigError, match=r"stem = 'english' and lemmatize = 'en' .*Remove one of them"):
        parse(Whole, {"tokenizer": {"stem": "english", "lemmatize": "en"}})
    with pytest.raises(ValidationError, match="greater than or equal to 257"):
        BpeTokenizerConfig(size=100)


def test_import_does_not_load_torch() -> None:
    code = (
        "import sys, catena.data.config, catena.embeddings.config, catena.data.tokenize, "
        "catena.data.vocabulary; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# --- real text ----------------------------------------------------------------------------------------------


@pytest.mark.data
def test_movie_reviews_are_cut_without_loss(real_data: Path) -> None:
    text = (real_data / "text_classification" / "rt-polarity.all").read_text(encoding="latin-1")
    lines = text.split("\n")[:-1]
    assert len(lines) == 10_662
    tokenizer = build_tokenizer(WordTokenizerConfig(lowercase=True))
    tokens = [tokenizer.tokens(line) for line in lines]
    assert all("".join(t) == "".join(line.lower().split()) for t, line in zip(tokens, lines, strict=True))
    flat = [token for line in tokens for token in line]
    assert flat.count("n't") > 900
    assert not any(token.endswith(("n't", "'re", "'ll")) and len(token) > 3 for token in flat)
    assert all(unicodedata.category(c)[0] != "Z" for c in set("".join(flat)))


def test_names_of_specials_stay_whole() -> None:
    for options in (
        WordTokenizerConfig(),
        WordTokenizerConfig(lowercase=True, hyphens="split"),
        WhitespaceTokenizerConfig(),
    ):
        tokens = build_tokenizer(options).tokens("the <unk> sat on a <pad> </s>")
        assert tokens == ["the", "<unk>", "sat", "on", "a", "<pad>", "</s>"]
    words = build_tokenizer(WordTokenizerConfig())
    assert words.tokens("(<unk>), <unk>'s <unk>-like") == ["(", "<unk>", ")", ",", "<unk>", "'s", "<unk>", "-", "like"]
    assert words.tokens("<unknown> < unk >") == ["<", "unknown", ">", "<", "unk", ">"]
