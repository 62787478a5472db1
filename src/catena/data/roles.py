"""Roles of columns: what a task reads from a record, and which column holds it.

A task lists its roles. A column gets a role because you name it, because its name is common for the role, or, where
that leaves one possibility, because of its values.

This module has the roles and the common names. :mod:`~catena.data.column_choice` chooses columns. Tested in
tests/data/test_roles.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from catena.errors import FormatError

TEXT_COLUMNS = (
    "text", "sentence", "review", "utterance", "query", "question", "message", "comment", "tweet", "content",
    "document", "phrase", "sms", "post", "body", "description", "headline", "input", "prompt",
)  # fmt: skip
LABEL_COLUMNS = (
    "label", "labels", "intent", "class", "category", "sentiment", "polarity", "target", "topic", "tag",
    "tags", "categories", "emotion", "topics", "intents", "classes", "emotions", "genre", "genres", "stars",
    "rating", "score", "overall", "domain", "output", "y", "accept", "choice",
)  # fmt: skip
RATING_COLUMNS = ("stars", "rating", "score", "overall", "sentiment", "polarity")
CONTEXT_COLUMNS = ("context", "question", "message", "prompt", "instruction", "query", "input")
RESPONSE_COLUMNS = (
    "utterance", "response", "ground truth utterance", "ground_truth_utterance", "answer", "reply", "completion",
    "output",
)  # fmt: skip
TURN_COLUMNS = (
    "turns", "messages", "conversations", "conversation", "dialogue", "dialog", "utterances", "messagelist",
)  # fmt: skip
DIALOGUE_COLUMNS = (
    "dialogue_id", "dialog_id", "dialogue id", "dialogueid", "conversation_id", "conversation id", "conversationid",
    "conv_id", "chat_id", "session_id", "thread_id",
)  # fmt: skip
SPEAKER_KEYS = ("speaker", "role", "from", "sender", "sender_name", "author", "user", "name")
"""Keys of who said a turn, the most certain first."""
TITLE_COLUMNS = ("goal", "title", "name", "topic")
ITEM_COLUMNS = ("items", "ingredients", "agenda", "points", "keywords", "recipeingredient")
COMPOSED_COLUMNS = ("text", "directions", "instructions", "steps", "recipe", "body", "content", "recipeinstructions")
WORD_COLUMNS = ("word", "words", "token", "tokens", "form")
TAG_COLUMNS = ("tag", "tags", "ner", "ner_tag", "ner_tags", "pos", "pos_tag", "upos", "label", "labels")
SENTENCE_COLUMNS = ("sentence #", "sentence_id", "sentence id", "sent_id", "sentence", "sentence_idx")
FILE_COLUMNS = ("file", "path", "filename", "file_name", "filepath", "image", "audio", "wav", "recording")

SPLIT_COLUMNS = ("split", "set", "subset", "partition", "part")
SPLITS = {
    **dict.fromkeys(("train", "training", "trn"), "train"),
    **dict.fromkeys(("dev", "valid", "val", "validation", "devel", "development", "eval"), "dev"),
    **dict.fromkeys(("test", "testing", "tst"), "test"),
}
"""Names of train, dev and test in columns of tables."""

ID_NAME = re.compile(r"(?i:id|idx|index|uid|uuid|guid|key|nr|no|number|row|(.*[_\-. ])(id|key|nr|no))|.*[a-z]I[dD]")
"""Names of columns that identify a record."""
_MAX_NAME_WORDS = 3
"""Maximum number of words of a column name whose last word counts."""

MISSING = frozenset(
    ("", "NA", "N/A", "n/a", "N.A.", "n.a.", "<NA>", "#N/A", "#NA", "NaN", "nan", "NAN", "Nan", "-nan", "NULL", "null",
     "Null", "(null)", "[NULL]", "<null>", "#NULL!", "#REF!", "#VALUE!", "#DIV/0!", "#NAME?", "#NUM!", "None", "\\N",
     "NaT")
)  # fmt: skip
"""Spellings of a missing value in labels, as pandas, R, spreadsheets and databases write them."""


@dataclass(frozen=True)
class Role:
    """What a task reads from each record under one name.

    Args:
        name: the role, such as "text".
        columns: common column names, the best first.
        required: whether a record without a value is dropped.
        is_list: whether the value is a tuple of strings, such as labels, rather than one string.
        missing: spellings that count as no value.
        separator: what separates several values in one string, for lists.
    """

    name: str
    columns: tuple[str, ...]
    required: bool = True
    is_list: bool = False
    missing: frozenset[str] = frozenset(("",))
    separator: str | None = None


TEXT = Role("text", TEXT_COLUMNS)
LABEL = Role("label", LABEL_COLUMNS, is_list=True, missing=MISSING)
SOURCE = Role("source", ("source", "src"))
TARGET = Role("target", ("target", "tgt", "trg"))
CONTEXT = Role("context", CONTEXT_COLUMNS)
TITLE = Role("title", TITLE_COLUMNS)
ITEMS = Role("items", ITEM_COLUMNS, is_list=True, separator="|")
COMPOSED = Role("text", COMPOSED_COLUMNS)
FILE = Role("file", FILE_COLUMNS)


class NoColumnError(FormatError):
    """A table has no column for a role."""

    def __init__(self, message: str, role: str) -> None:
        super().__init__(message)
        self.role = role


@dataclass(frozen=True)
class ColumnChoice:
    """The column of a role.

    Args:
        columns: the column. Several are alternatives, one for each record, or columns of 0 and 1.
        why: "set" by you, or by "name" or "values".
        one_hot: whether the columns are labels that a record has if its value is 1.
        integers: whether the values are integers that were written as 1.0.
        lists: whether the values are stored as lists, so that a string is not a value.
        class_names: the names of numbered classes.
    """

    columns: tuple[str, ...]
    why: str = "name"
    one_hot: bool = False
    integers: bool = False
    lists: bool = False
    class_names: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return " or ".join(map(repr, self.columns)) if not self.one_hot else ", ".join(map(repr, self.columns))


# --- names ------------------------------------------------------------------------------------------------------------


def find_column(names: Sequence[str], known: Sequence[str], *, exact: bool = False) -> str | None:
    """The column with the first of the known names, ignoring case, or else the only one whose last word is known.

    The last part of a dotted name counts as its name: ``data.text`` is a text. With ``exact``, last words do not count.
    """
    folded = {_last_part(name): name for name in reversed(names) if not _ABOUT.search(name)}
    folded |= {name.strip().casefold(): name for name in reversed(names)}
    if (found := next((folded[name] for name in known if name in folded), None)) is not None:
        return found
    apart = [name for name in names if not _ABOUT.search(name)]
    ending = [name for name in apart if _last_word(name) in known and _last_word(name) != _last_part(name)]
    return ending[0] if len(ending) == 1 and not exact else None


_ABOUT = re.compile(r"(?i)(^|\.)(user|author|owner|creator|meta|metadata)\.")
"""The path to what is known about the author of a text, or about its file: ``user.description`` is not a text."""


def _last_part(name: str) -> str:
    return name.rsplit(".", 1)[-1].strip().casefold()


def _last_word(name: str) -> str:
    """The last word of ``comment_text``, ``Review Text`` or ``reviewText`` in lower case; of longer names, nothing."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.rsplit(".", 1)[-1].strip())
    words = re.split(r"[\s_-]+", apart)
    return words[-1].casefold() if len(words) <= _MAX_NAME_WORDS else ""


def known_roles(names: Sequence[str]) -> dict[str, str]:
    """The roles that column names show, with their columns: text and label, pairs, compositions or tagged words."""
    names = [name for name in names if len(name.strip()) > 1 and not name.strip().isdecimal()]
    found: dict[str, str] = {}
    if (sides := find_pair(names)) is not None:
        found |= {"source": names[sides[0]], "target": names[sides[1]]}
    elif (source := find_column(names, SOURCE.columns)) is not None:
        found["source"] = source
    if (text := find_column(names, TEXT_COLUMNS)) is not None:
        found["text"] = text
    if (label := find_column([name for name in names if name != text], LABEL_COLUMNS)) is not None:
        found["label"] = label
    others = {"turns": TURN_COLUMNS, "title": TITLE_COLUMNS, "items": ITEM_COLUMNS, "word": WORD_COLUMNS}
    for role, known in others.items():
        if (column := find_column(names, known, exact=True)) is not None:
            found[role] = column
    return found


def names_texts_and_ids(names: Sequence[str]) -> bool:
    """Whether column names name texts and their ids, such as ``id`` and ``text``."""
    text = find_column(names, TEXT_COLUMNS, exact=True)
    return text is not None and len(names) > 1 and all(ID_NAME.fullmatch(name) for name in names if name != text)


# --- pairs ------------------------------------------------------------------------------------------------------------

_PAIRS = (
    ("source", "target"), ("src", "tgt"), ("src", "trg"), ("src", "ref"), ("source", "reference"),
    ("instruction", "output"), ("instruction", "response"), ("input", "output"),
    ("text", "summary"), ("word", "pronunciation"), ("word", "ipa"), ("word", "transcription"), ("grapheme", "phoneme"),
    ("graphemes", "phonemes"), ("word", "phonemes"), ("word", "phones"), ("word", "arpabet"), ("lemma", "form"),
    ("lemma", "word"), ("lemma", "token"), ("lemma", "inflection"),
)  # fmt: skip
"""Column names of pairs that are certainly not a pair themselves, in either order. Lemmas are read in their order."""
_SIDES = (
    (CONTEXT_COLUMNS, RESPONSE_COLUMNS),
    (("text", "article", "document", "dialogue", "body", "source"), ("summary", "highlights", "abstract", "headline")),
    (
        ("original", "sentence", "text", "source", "input"),
        ("translation", "paraphrase", "simplified", "corrected", "correction", "target", "output"),
    ),
    (("incorrect", "wrong", "noisy", "complex", "informal"), ("correct", "right", "clean", "simple", "formal")),
)
"""Words that may be column names or a pair: any of the first with any of the second, in either order."""
_RELATED = (
    (("premise", "claim", "statement"), ("hypothesis", "evidence", "justification")),
    (("question", "query"), ("sentence", "passage", "paragraph", "document")),
)
"""Names of two texts whose relation is labeled: entailment, relevance, evidence."""
_MARKS = (("1", "2"), ("a", "b"), ("first", "second"))
_NUMBERED = frozenset((*TEXT_COLUMNS, "texts", "sentences", "sent", "string", "title", "statement", "argument"))
"""Words that are the names of two texts together with a mark: question1 and question2, text_a and text_b."""
_FILLERS = frozenset({"text", "texts", "sentence", "sentences", "language", "lang"})
"""Uninformative words in column names: source text, en_sentence."""
_NUMBERS = frozenset({"id", "no"})
"""Column names that are also language codes."""


def find_pair(names: Sequence[str]) -> tuple[int, int] | None:
    """The indices of the source and target columns by name, or None if the names are not informative.

    The names are source and target, two languages in their order, or question and answer and similar.
    """
    folded = _pair_names(names)
    for source, target in _PAIRS:
        if source in folded and target in folded:
            left, right = folded.index(source), folded.index(target)
            return (right, left) if "lemma" in (source, target) and right < left else (left, right)
    for language in (language_by_name, lambda name: language_by_code(name) or language_by_name(name)):
        found = [(i, known) for i, name in enumerate(folded) if (known := language(name)) is not None]
        if len(folded) > 2:  # "id" or "no" in front is a number, not Indonesian or Norwegian
            found = [(i, known) for i, known in found if folded[i] not in _NUMBERS]
        if _are_two([known for _, known in found]):
            return found[0][0], found[1][0]
    for first, second in _SIDES:
        both = [next((folded.index(name) for name in side if name in folded), None) for side in (first, second)]
        if both[0] is not None and both[1] is not None and both[0] != both[1]:
            return both[0], both[1]
    return _find_numbered(names)


def find_related(names: Sequence[str]) -> tuple[int, int] | None:
    """The indices of two columns of texts whose relation may be labeled, such as question1 and question2, or None."""
    if (numbered := _find_numbered(names)) is not None:
        return numbered
    folded = [name.strip().casefold() for name in names]
    for sides in _RELATED:
        both = [next((folded.index(name) for name in side if name in folded), None) for side in sides]
        if both[0] is not None and both[1] is not None:
            return both[0], both[1]
    return None


def _find_numbered(names: Sequence[str]) -> tuple[int, int] | None:
    """The indices of two columns whose names differ in their number, such as sentence1 and sentence2, or None."""
    words = [re.findall(r"[^\W\d_]+|\d+", name.casefold()) for name in names]
    for first, second in _MARKS:
        for i, parts in enumerate(words):
            if first in parts and _NUMBERED.issuperset(rest := [part for part in parts if part != first]) and rest:
                other = [second if part == first else part for part in parts]
                if other in words:
                    return i, words.index(other)
    return None


def names_pair(fields: Sequence[str]) -> bool:
    """Whether two fields are certainly column names: source and target or similar, or two languages in full."""
    names = _pair_names(fields)
    if any(names in (pair, pair[::-1]) for pair in _PAIRS) or (len(fields) == 2 and find_related(fields) is not None):
        return True
    return _are_two([language_by_name(name) for name in names])


def may_name_pair(fields: Sequence[str]) -> bool:
    """Whether two fields may be column names or a pair of words, so that the next lines decide.

    Examples are en and de, question and answer.
    """
    names = _pair_names(fields)
    if len(names) != 2:
        return False
    if _are_two([language_by_code(name) or language_by_name(name) for name in names]):
        return True
    return any(names[i] in first and names[1 - i] in second for first, second in _SIDES for i in (0, 1))


def are_responses(source: str, target: str) -> bool:
    """Whether two column names denote a context and a response, such as question and answer."""
    names = _pair_names((source, target))
    return names[0] in CONTEXT_COLUMNS and names[1] in RESPONSE_COLUMNS


def _pair_names(fields: Sequence[str]) -> tuple[str, ...]:
    """The names in lower case, the last part of a dotted one, without uninformative words."""
    return tuple(_informative(field.rsplit(".", 1)[-1].strip().casefold()) for field in fields)


def _informative(name: str) -> str:
    words = re.split(r"[\s_]+", name)
    kept = [word for word in words if word not in _FILLERS]
    return kept[0] if len(kept) == 1 and len(words) == 2 else name


def _are_two(languages: Sequence[str | None]) -> bool:
    return len(languages) == 2 and None not in languages and languages[0] != languages[1]


# --- languages --------------------------------------------------------------------------------------------------------


_LANGUAGES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "ar": (("ara",), ("arabic", "العربية")),
    "bg": (("bul",), ("bulgarian", "български")),
    "bn": (("ben",), ("bengali", "bangla", "বাংলা")),
    "ca": (("cat",), ("catalan", "català")),
    "cs": (("ces", "cze"), ("czech", "čeština")),
    "cy": (("cym", "wel"), ("welsh", "cymraeg")),
    "da": (("dan",), ("danish", "dansk")),
    "de": (("deu", "ger"), ("allemand", "alemán", "tedesco", "german", "deutsch")),
    "el": (("ell", "gre"), ("greek", "ελληνικά")),
    "en": (
        ("eng",),
        (
            "englisch",
            "anglais",
            "inglés",
            "inglese",
            "english",
        ),
    ),
    "eo": (("epo",), ("esperanto",)),
    "es": (("spa",), ("spanisch", "espagnol", "spagnolo", "spanish", "español", "castellano")),
    "et": (("est",), ("estonian", "eesti")),
    "eu": (("eus", "baq"), ("basque", "euskara")),
    "fa": (("fas", "per"), ("persian", "farsi", "فارسی")),
    "fi": (("fin",), ("finnish", "suomi")),
    "fr": (("fra", "fre"), ("französisch", "francés", "francese", "french", "français", "francais")),
    "ga": (("gle",), ("irish", "gaeilge")),
    "gl": (("glg",), ("galician", "galego")),
    "he": (("heb",), ("hebrew", "עברית")),
    "hi": (("hin",), ("hindi", "हिन्दी")),
    "hr": (("hrv",), ("croatian", "hrvatski")),
    "hu": (("hun",), ("hungarian", "magyar")),
    "id": (("ind",), ("indonesian",)),
    "is": (("isl", "ice"), ("icelandic", "íslenska")),
    "it": (("ita",), ("italienisch", "italien", "italian", "italiano")),
    "ja": (("jpn",), ("japanese", "日本語")),
    "ko": (("kor",), ("korean", "한국어")),
    "la": (("lat",), ("latin",)),
    "lt": (("lit",), ("lithuanian", "lietuvių")),
    "lv": (("lav",), ("latvian", "latviešu")),
    "nl": (("nld", "dut"), ("niederländisch", "dutch", "nederlands")),
    "no": (("nor", "nob", "nb"), ("norwegian", "norsk")),
    "pl": (("pol",), ("polish", "polski")),
    "pt": (("por",), ("portugiesisch", "portugais", "portuguese", "português")),
    "ro": (("ron", "rum"), ("romanian", "română")),
    "ru": (("rus",), ("russisch", "russe", "russian", "русский")),
    "sk": (("slk", "slo"), ("slovak", "slovenčina")),
    "sl": (("slv",), ("slovenian", "slovenščina")),
    "sr": (("srp",), ("serbian", "српски", "srpski")),
    "sv": (("swe",), ("swedish", "svenska")),
    "sw": (("swa", "swh"), ("swahili", "kiswahili")),
    "ta": (("tam",), ("tamil", "தமிழ்")),
    "th": (("tha",), ("thai", "ไทย")),
    "tr": (("tur",), ("turkish", "türkçe")),
    "uk": (("ukr",), ("ukrainian", "українська")),
    "ur": (("urd",), ("urdu", "اردو")),
    "vi": (("vie",), ("vietnamese", "tiếng việt")),
    "zh": (("zho", "chi", "cmn"), ("chinese", "mandarin", "中文")),
}
"""Code: other codes, and names."""
_BY_NAME = {name: code for code, (_, names) in _LANGUAGES.items() for name in names}
_BY_CODE = {short: code for code, (codes, _) in _LANGUAGES.items() for short in (code, *codes)}
_REGION = re.compile(r"([a-z]{2,3})[-_]([a-z]{2}|[a-z]{4}|[0-9]{3})")


def language_by_name(name: str) -> str | None:
    """The code of a language given by its full name in lower case, or None."""
    return _BY_NAME.get(name)


def language_by_code(name: str) -> str | None:
    """The code of a language given by a code in lower case, with or without a country: en, eng, en-gb."""
    found = _REGION.fullmatch(name)
    return _BY_CODE.get(found[1] if found else name)
