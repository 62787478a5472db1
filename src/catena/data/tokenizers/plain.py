"""Tokenizers without language-specific rules: by whitespace, grapheme or byte."""

from __future__ import annotations

from collections.abc import Sequence

import regex

from catena.data.config import WhitespaceTokenizerConfig
from catena.data.tokenize import Tokenizer, cache_splits, word_rule

_GRAPHEME = regex.compile(r"\X")
BYTE_SYMBOLS = tuple(chr(b) if 0x21 <= b <= 0x7E else f"<0x{b:02X}>" for b in range(256))
"""The token of each byte: itself for printable ASCII, otherwise its number. Tokens are unique."""
_BYTE_OF = {symbol: bytes([b]) for b, symbol in enumerate(BYTE_SYMBOLS)}
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()


class WhitespaceTokenizer(Tokenizer):
    """Tokens separated by whitespace."""

    def __init__(self, settings: WhitespaceTokenizerConfig) -> None:
        super().__init__(settings)
        rule = word_rule(settings)
        self._cut = cache_splits(rule) if rule else None

    def tokens(self, text: str) -> list[str]:
        words = self._text(text).split()
        return words if self._cut is None else [token for word in words for token in self._cut(word)]

    def chunks(self, text: str) -> list[str]:
        return self._text(text).split()

    def chunk_tokens(self, chunk: str) -> Sequence[str]:
        return (chunk,) if self._cut is None else self._cut(chunk)

    def join(self, tokens: Sequence[str]) -> str:
        return " ".join(tokens)


class CharacterTokenizer(Tokenizer):
    """Graphemes (Unicode Standard Annex 29), including whitespace."""

    def tokens(self, text: str) -> list[str]:
        text = self._text(text)
        if text.isascii() and "\r" not in text:  # \r\n is the only grapheme of several ASCII characters
            return list(text)
        return _GRAPHEME.findall(text)

    def join(self, tokens: Sequence[str]) -> str:
        return "".join(tokens)


class ByteTokenizer(Tokenizer):
    """The bytes of the UTF-8 text. Lone surrogates have bytes too, so every ``str`` can be restored."""

    @property
    def symbols(self) -> tuple[str, ...]:
        return BYTE_SYMBOLS

    def tokens(self, text: str) -> list[str]:
        return [BYTE_SYMBOLS[b] for b in self._text(text).encode("utf-8", "surrogatepass")]

    def join(self, tokens: Sequence[str]) -> str:
        """The text of bytes. Bytes that are not UTF-8, which a model may generate, become U+FFFD."""
        joined = b"".join(_BYTE_OF.get(token, _REPLACEMENT) for token in tokens)
        try:
            return joined.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return joined.decode("utf-8", "replace")
