"""Tokenisers without rules of language: between blanks, by grapheme, by byte."""

from __future__ import annotations

from collections.abc import Sequence

import regex

from catena.data.settings import ByteTokens, CharacterTokens, WhitespaceTokens
from catena.data.tokenisers.base import Tokeniser
from catena.data.tokenisers.rules import cached, text_rule, word_rule

GRAPHEME = regex.compile(r"\X")
BYTE_SYMBOLS = tuple(chr(b) if 0x21 <= b <= 0x7E else f"<0x{b:02X}>" for b in range(256))
"""The token of each byte: printable ASCII stands for itself, the rest for its number. No two are alike."""
BYTE_OF = {symbol: bytes([b]) for b, symbol in enumerate(BYTE_SYMBOLS)}
REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()


class WhitespaceTokeniser(Tokeniser):
    """Tokens stand between blanks of any kind."""

    def __init__(self, settings: WhitespaceTokens) -> None:
        self._settings = settings
        self._text = text_rule(settings)
        rule = word_rule(settings)
        self._cut = cached(rule) if rule else None

    @property
    def settings(self) -> WhitespaceTokens:
        return self._settings

    def tokens(self, text: str) -> list[str]:
        words = self._text(text).split()
        return words if self._cut is None else [token for word in words for token in self._cut(word)]

    def join(self, tokens: Sequence[str]) -> str:
        return " ".join(tokens)


class CharacterTokeniser(Tokeniser):
    """Graphemes (Unicode Standard Annex 29): what a reader takes for one character, blanks included."""

    def __init__(self, settings: CharacterTokens) -> None:
        self._settings = settings
        self._text = text_rule(settings)

    @property
    def settings(self) -> CharacterTokens:
        return self._settings

    def tokens(self, text: str) -> list[str]:
        text = self._text(text)
        if text.isascii() and "\r" not in text:  # \r\n is the only grapheme of several ASCII characters
            return list(text)
        return GRAPHEME.findall(text)

    def join(self, tokens: Sequence[str]) -> str:
        return "".join(tokens)


class ByteTokeniser(Tokeniser):
    """The bytes of the UTF-8 text. Lone surrogates have bytes too, so every ``str`` comes back as it was."""

    def __init__(self, settings: ByteTokens) -> None:
        self._settings = settings
        self._text = text_rule(settings)

    @property
    def settings(self) -> ByteTokens:
        return self._settings

    @property
    def symbols(self) -> tuple[str, ...]:
        return BYTE_SYMBOLS

    def tokens(self, text: str) -> list[str]:
        return [BYTE_SYMBOLS[b] for b in self._text(text).encode("utf-8", "surrogatepass")]

    def join(self, tokens: Sequence[str]) -> str:
        """The text of bytes. Bytes that are no UTF-8, such as a model may invent, become U+FFFD."""
        joined = b"".join(BYTE_OF.get(token, REPLACEMENT) for token in tokens)
        try:
            return joined.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return joined.decode("utf-8", "replace")
