"""A chat with a model: the turns, the responses and a few commands. Independent of the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from catena.data.conversations import Exchange
from catena.data.reading import ReadCounter
from catena.errors import DataError
from catena.randomness import Randomness
from catena.retrieval.config import BM25Config
from catena.search.config import BaseSearchConfig
from catena.tasks.converse.config import ConverseConfig, ConverseDataConfig, ConverseOptions
from catena.tasks.converse.data import USER_INPUT_LOCATION, read_conversations
from catena.tasks.converse.generative import GenerativeTask
from catena.tasks.converse.predict import ScoredResponse
from catena.tasks.converse.rankers import TermRanker
from catena.tasks.converse.task import ConverseTask, TermTask

_COMMANDS = {
    "/quit": "end the conversation",
    "/undo": "remove your last message and the response to it",
    "/clear": "clear the conversation",
    "/best": "show the best responses to your last message: /best 5",
    "/seed": "set the seed of sampled responses: /seed 3",
    "/help": "show these commands",
}
NOTHING = "(no response)"
_EMPTY = "(the conversation is empty)"


class Chat:
    """A conversation between the user and a model.

    Args:
        model: the model that responds.
        search: the search of a generative model; the search of its config if not set.
        seed: seed of sampled responses.
    """

    def __init__(self, model: ConverseTask[Any], search: BaseSearchConfig | None = None, seed: int = 0) -> None:
        self.model, self.search, self.seed = model, search, seed
        self.turns: list[str] = []
        self.own: list[bool] = []
        self.ended = False

    def say(self, line: str) -> str | None:
        """The response to a line, or the output of a command; None for a blank line or after the end."""
        text = " ".join(line.split())
        if not text:
            return None
        if text.startswith("/"):
            return self._command(text)
        self._add(text, own=False)
        responses = self.responses(1)
        if not responses:
            return NOTHING
        self._add(responses[0].text, own=True)
        return responses[0].text

    def responses(self, n: int) -> list[ScoredResponse]:
        """The best responses to the last message, without empty and repeated ones."""
        turns, own = list(self.turns), list(self.own)
        while own and own[-1]:  # respond again to the user's last turn
            turns.pop()
            own.pop()
        if not turns:
            return []
        w = self.model.config.data.window
        context = Exchange(tuple(turns[-w:]), (), USER_INPUT_LOCATION, tuple(own[-w:]))
        if isinstance(self.model, GenerativeTask):
            search = self.search or self.model.config.evaluation.search
            generator = Randomness(self.seed).torch("chat", len(turns))
            generated = self.model.generate([context], search, generator, n)[0]
            return list({one.text: one for one in generated if one.text.strip()}.values())
        if not self.model.ranker.knows(context):
            return []
        earlier = {turn for turn, mine in zip(turns, own, strict=True) if mine}
        responses = self.model.respond([context], ConverseOptions(n_best=n + len(earlier)))[0]
        if isinstance(self.model.ranker, TermRanker):
            responses = [one for one in responses if one.score > 0]  # the others have no word in common
        return [one for one in responses if one.text not in earlier][:n]

    def _add(self, text: str, own: bool) -> None:
        self.turns.append(text)
        self.own.append(own)

    def _command(self, text: str) -> str | None:
        name, _, rest = text.partition(" ")
        commands: dict[str, Callable[[str], str | None]] = {
            "/quit": self._quit,
            "/undo": self._undo,
            "/clear": self._clear,
            "/best": self._best,
            "/seed": self._seed,
            "/help": lambda _: "\n".join(f"{name}  {words}" for name, words in _COMMANDS.items()),
        }
        if name not in commands:
            return f"(unknown command {name}; the commands are {', '.join(_COMMANDS)})"
        return commands[name](rest.strip())

    def _quit(self, rest: str) -> None:
        self.ended = True

    def _undo(self, rest: str) -> str:
        if not self.turns:
            return _EMPTY
        if self.own[-1]:
            self.turns.pop()
            self.own.pop()
        self.own.pop()
        return f"(removed: {self.turns.pop()})"

    def _clear(self, rest: str) -> str:
        self.turns, self.own = [], []
        return "(conversation cleared)"

    def _seed(self, rest: str) -> str:
        if not rest.isdecimal():
            return "(the seed must be an integer: /seed 3)"
        self.seed = int(rest)
        return f"(seed {self.seed})"

    def _best(self, rest: str) -> str:
        if not self.turns:
            return _EMPTY
        if rest and not (rest.isdecimal() and int(rest) > 0):
            return "(the number must be a positive integer: /best 5)"
        n = int(rest or 5)
        return "\n".join(f"{one.score:.3f}  {one.text}" for one in self.responses(n)) or NOTHING


def model_of_file(path: Path, encoding: str | None = None, columns: Mapping[str, str | None] | None = None) -> TermTask:
    """A BM25 model over the contexts and responses of a file of conversations, which needs no training.

    Args:
        path: the file.
        encoding: its encoding if it is not UTF-8.
        columns: the columns of "context" and "response"; detected if not given.
    """
    named = {f"{role}_column": column for role, column in (columns or {}).items()}
    data = ConverseDataConfig(train=(str(path),), encoding=encoding, window=1).model_copy(update=named)
    config = ConverseConfig(model=BM25Config(against="both"), data=data)
    train = [exchange for exchange in read_conversations(data, path, ReadCounter()) if exchange.responses]
    if not train:
        raise DataError(f"{path} has no context with a response. Use a file of conversations.")
    return TermTask.of_exchanges(config, train)
