"""Verse: forms with meter and rhyme as constraints of a search, rhymes estimated from poems, poems on a topic."""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports

if TYPE_CHECKING:
    from catena.niche.verse.acceptor import Line as Line
    from catena.niche.verse.acceptor import Verse as Verse
    from catena.niche.verse.form import VerseForm as VerseForm
    from catena.niche.verse.form import read_lexicon as read_lexicon
    from catena.niche.verse.form import verse_acceptor as verse_acceptor
    from catena.niche.verse.poem import Poem as Poem
    from catena.niche.verse.poem import PoemGenerator as PoemGenerator
    from catena.niche.verse.prosody import Dictionary as Dictionary
    from catena.niche.verse.rhymes import learn_rhymes as learn_rhymes
    from catena.niche.verse.rhymes import read_rhymes as read_rhymes

__all__ = [
    "Dictionary",
    "Line",
    "Poem",
    "PoemGenerator",
    "Verse",
    "VerseForm",
    "learn_rhymes",
    "read_lexicon",
    "read_rhymes",
    "verse_acceptor",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Dictionary": ".prosody",
        "Line": ".acceptor",
        "Poem": ".poem",
        "PoemGenerator": ".poem",
        "Verse": ".acceptor",
        "VerseForm": ".form",
        "learn_rhymes": ".rhymes",
        "read_lexicon": ".form",
        "read_rhymes": ".rhymes",
        "verse_acceptor": ".form",
    },
)
