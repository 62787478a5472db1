"""From characters to tokens: a constraint on text for models that write words or pieces of words."""

from __future__ import annotations

from collections.abc import Mapping

from catena.errors import ConfigError
from catena.structure.automaton.build import from_lexicon
from catena.structure.automaton.compose import compose
from catena.structure.automaton.rational import closure, project
from catena.structure.automaton.symbols import Symbols
from catena.structure.automaton.value import Automaton


def spelled(machine: Automaton, tokens: Mapping[int, str], symbols: Symbols | None = None) -> Automaton:
    """The sequences of ids (labels: ids + 1) whose tokens, written one after another, a machine of characters reads.

    Args:
        machine: reads characters; a pattern, for instance.
        tokens: the text of each id that may be written, with its blanks; a token may be cut anywhere in a word.
        symbols: the machine's labels of characters; code points if omitted.
    """
    empty = [id for id, text in tokens.items() if not text]
    if empty or not tokens:
        raise ConfigError(
            f"tokens must have a text, and there must be some, but of {len(tokens)} {empty[:9]} have none"
        )
    known = {id: text for id, text in tokens.items() if symbols is None or all(c in symbols for c in text)}
    lexicon = from_lexicon([([id + 1], text) for id, text in known.items()], output_symbols=symbols)
    return project(compose(closure(lexicon), machine), "input")
