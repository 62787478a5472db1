"""Languages by column name: codes of two and three letters, and names in English and in the language itself."""

from __future__ import annotations

import re

_LANGUAGES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "ar": (("ara",), ("arabic", "العربية")),
    "bg": (("bul",), ("bulgarian", "български")),
    "bn": (("ben",), ("bengali", "bangla", "বাংলা")),
    "ca": (("cat",), ("catalan", "català")),
    "cs": (("ces", "cze"), ("czech", "čeština")),
    "cy": (("cym", "wel"), ("welsh", "cymraeg")),
    "da": (("dan",), ("danish", "dansk")),
    "de": (("deu", "ger"), ("german", "deutsch")),
    "el": (("ell", "gre"), ("greek", "ελληνικά")),
    "en": (("eng",), ("english",)),
    "eo": (("epo",), ("esperanto",)),
    "es": (("spa",), ("spanish", "español", "castellano")),
    "et": (("est",), ("estonian", "eesti")),
    "eu": (("eus", "baq"), ("basque", "euskara")),
    "fa": (("fas", "per"), ("persian", "farsi", "فارسی")),
    "fi": (("fin",), ("finnish", "suomi")),
    "fr": (("fra", "fre"), ("french", "français", "francais")),
    "ga": (("gle",), ("irish", "gaeilge")),
    "gl": (("glg",), ("galician", "galego")),
    "he": (("heb",), ("hebrew", "עברית")),
    "hi": (("hin",), ("hindi", "हिन्दी")),
    "hr": (("hrv",), ("croatian", "hrvatski")),
    "hu": (("hun",), ("hungarian", "magyar")),
    "id": (("ind",), ("indonesian",)),
    "is": (("isl", "ice"), ("icelandic", "íslenska")),
    "it": (("ita",), ("italian", "italiano")),
    "ja": (("jpn",), ("japanese", "日本語")),
    "ko": (("kor",), ("korean", "한국어")),
    "la": (("lat",), ("latin",)),
    "lt": (("lit",), ("lithuanian", "lietuvių")),
    "lv": (("lav",), ("latvian", "latviešu")),
    "nl": (("nld", "dut"), ("dutch", "nederlands")),
    "no": (("nor", "nob", "nb"), ("norwegian", "norsk")),
    "pl": (("pol",), ("polish", "polski")),
    "pt": (("por",), ("portuguese", "português")),
    "ro": (("ron", "rum"), ("romanian", "română")),
    "ru": (("rus",), ("russian", "русский")),
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
