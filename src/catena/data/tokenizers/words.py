"""Words, numbers and punctuation, by rules.

The splits follow the Penn Treebank where it has a convention (do n't, it 's, 50 %, $ 5). They keep URLs, e-mail
addresses, @names, #tags, emoji, 3.14, 1,000, 12:30, U.S., special tokens such as <unk> and, by an option, 11-year-old
whole. Scripts without blanks are split, but not into words: Han characters one by one, runs of kana together. Only
blanks are lost, so the concatenated tokens of a text are the text without its blanks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import regex

from catena.data.config import WordTokenizerConfig
from catena.data.special_tokens import NAMES_IN_TEXT
from catena.data.tokenize import Tokenizer, cache_splits, word_rule

_CLITIC = r"['’](?:s|re|ve|ll|d|m)"
_CONTRACTED = regex.compile(rf"(?i)([\w'’‐‑-]+?)((?:n['’]t)?(?:{_CLITIC})*)")
_CONTRACTION = regex.compile(rf"(?i)n['’]t|{_CLITIC}")

_URL_CHARACTER = r"[\p{Latin}\p{Greek}\p{Cyrillic}\p{M}0-9\-._~:/?#@!$&*+,;=%']"
_URL_END = r"[\p{Latin}\p{Greek}\p{Cyrillic}\p{M}0-9\-_~/#@$&*+=%]"
_IN_PARENTHESES = rf"\({_URL_CHARACTER}*+\)"

# The bounds on the parts of an address keep time and memory linear on long lines without blanks.
_PATTERN = r"""
  SPECIAL
| (?: (?i:https?|ftp):// | (?i:www)\. )
  (?: URL_CHARACTER | IN_PARENTHESES ){0,2000} (?: URL_END | IN_PARENTHESES )
| [\w.+%-]{1,64} @ (?: [\w-]{1,63} \. ){1,8} \p{L}{2,63}
| (?<!\w) [@\#] \p{L} \w*
| [0-9\#*] \uFE0F? \u20E3
| (?= \p{Extended_Pictographic} | \p{Regional_Indicator} ) \X
| (?<!\w) ['’] (?i: s | re | ve | ll | d | m | em | tis | twas | til ) (?!\w)
| (?<!\w) (?: \p{L} \. ){2,} (?: \p{L} (?!\w) )?
| (?<!\w) (?i: mr | mrs | ms | dr | prof | st | jr | sr | vs | ph\.d ) \.
| \.{2,} | -{2,} | `` | ''
| SIGN? WORD+ (?: JOINT WORD+ )*
| \p{Han} \p{M}*
| [\p{Hiragana}]+
| [\p{Katakana}ー]+
| \X
"""
_WORD = r"[\w--[\p{Han}\p{Hiragana}\p{Katakana}ー]]"
_SIGN = r"(?: (?<![\w)\]%.]) (?: [-+−] \.? | \. ) (?=\d) )"
_JOINT = {"keep": r"(?: ['’‐‑-] | (?<=\d) [.,:] (?=\d) )", "split": r"(?: ['’] | (?<=\d) [.,:] (?=\d) )"}


@cache
def word_pattern(hyphens: str) -> regex.Pattern[str]:
    """The pattern of one token. Alternatives are tried in order, and the last matches any grapheme."""
    text = _PATTERN
    parts = {"URL_CHARACTER": _URL_CHARACTER, "IN_PARENTHESES": _IN_PARENTHESES, "URL_END": _URL_END}
    parts["SPECIAL"] = f"(?: {' | '.join(map(regex.escape, NAMES_IN_TEXT))} )"
    for name, part in {**parts, "SIGN": _SIGN, "JOINT": _JOINT[hyphens], "WORD": _WORD}.items():
        text = text.replace(name, part)
    return regex.compile(text, regex.VERBOSE | regex.V1)


def split_contractions(word: str) -> list[str]:
    """``shouldn't've`` becomes ``should``, ``n't``, ``'ve``. A word without a contraction stays whole."""
    found = _CONTRACTED.fullmatch(word)
    if not found or not found[2]:
        return [word]
    return [found[1], *_CONTRACTION.findall(found[2])]


class WordTokenizer(Tokenizer):
    """Splits at blanks, then each chunk by the pattern. Chunks are cached, so running text is fast."""

    settings: WordTokenizerConfig

    def __init__(self, settings: WordTokenizerConfig) -> None:
        super().__init__(settings)
        self._pattern = word_pattern(settings.hyphens)
        self._rule = word_rule(settings)
        self._cut = cache_splits(self._cut_chunk)

    def tokens(self, text: str) -> list[str]:
        cut = self._cut
        return [token for chunk in self._text(text).split() for token in cut(chunk)]

    def chunks(self, text: str) -> list[str]:
        return self._text(text).split()

    def chunk_tokens(self, chunk: str) -> tuple[str, ...]:
        return self._cut(chunk)

    def _cut_chunk(self, chunk: str) -> list[str]:
        tokens = self._pattern.findall(chunk)
        if "'" in chunk or "’" in chunk:
            tokens = [part for token in tokens for part in split_contractions(token)]
        if self._rule:
            tokens = [part for token in tokens for part in self._rule(token)]
        return tokens

    def join(self, tokens: Sequence[str]) -> str:
        """The text with conventional spacing, which is a guess where tokens are ambiguous, as with quotes."""
        text: list[str] = []
        previous = ""
        open_quotes: set[str] = set()
        for token in tokens:
            quote = token in _QUOTES
            closes = quote and token in open_quotes
            if text and not (closes or _no_blank_between(previous, token, self.settings.hyphens)):
                text.append(" ")
            text.append(token)
            if quote:
                open_quotes ^= {token}
            # An opening quote attaches to the next token.
            previous = "(" if quote and not closes else token
        return "".join(text)


_QUOTES = frozenset({'"', "'"})
_CLOSING = regex.compile(rf"(?i)[.,!?;:%)\]}}…»”]|\.\.+|''|n['’]t|{_CLITIC}")
_OPENING = regex.compile(r"[(\[{$£€«“]|``")
_NO_BLANKS = r"[\p{Han}\p{Hiragana}\p{Katakana}ー\u3000-\u303F\uFF00-\uFF65]"
_BLANKLESS = regex.compile(rf"{_NO_BLANKS}\p{{M}}*|\p{{Hiragana}}+|[\p{{Katakana}}ー]+")


def _no_blank_between(left: str, right: str, hyphens: str) -> bool:
    if _CLOSING.fullmatch(right) or _OPENING.fullmatch(left):
        return True
    if hyphens == "split" and "-" in (left, right):
        return True
    return bool(_BLANKLESS.fullmatch(left) and _BLANKLESS.fullmatch(right))
