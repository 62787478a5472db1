"""A chat with a model: the turns, the responses and a few commands. Independent of the terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from catena.data.dialogue import Exchange
from catena.data.readers.names import PairColumns
from catena.data.readers.paired import FOUND
from catena.data.reading import ReadCounter
from catena.errors import DataError
from catena.randomness import Randomness
from catena.retrieval.config import BM25Config
from catena.retrieval.terms import learn_terms
from catena.search.config import BaseSearchConfig
from catena.tasks.application import PredictOptions
from catena.tasks.converse.config import ConverseConfig, ConverseDataConfig
from catena.tasks.converse.dataset import ConverseDataset, exchanges
from catena.tasks.converse.encoding import learn_tokenizer
from catena.tasks.converse.generative import WritingPredictor
from catena.tasks.converse.index import RetrievedResponse, build_index, collect_responses
from catena.tasks.converse.predictor import USER_INPUT_LOCATION, ConversePredictor, RetrievalPredictor
from catena.tasks.converse.rankers import TermRanker

_COMMANDS = {
    "/quit": "end the conversation",
    "/undo": "remove your last message and the response to it",
    "/clear": "clear the conversation",
    "/best": "show the best responses to your last message: /best 5",
    "/seed": "set the seed of sampled responses: /seed 3",
    "/help": "show these commands",
}
NOTHING = "(no response)"
_NOTHING_SAID = "(the conversation is empty)"


class Chat:
    """A conversation between the user and a model.

    Args:
        model: the model that responds.
        search: the search of a generative model; the search of its config if not set.
        seed: seed of sampled responses.
    """

    def __init__(self, model: ConversePredictor, search: BaseSearchConfig | None = None, seed: int = 0) -> None:
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
        found = self.answers(1)
        if not found:
            return NOTHING
        self._add(found[0].text, own=True)
        return found[0].text

    def answers(self, n: int) -> list[RetrievedResponse]:
        """The best responses to the last message, without empty and repeated ones."""
        turns, own = list(self.turns), list(self.own)
        while own and own[-1]:  # respond again to the user's last turn
            turns.pop()
            own.pop()
        if not turns:
            return []
        w = self.model.config.data.window
        context = Exchange(tuple(turns[-w:]), (), USER_INPUT_LOCATION, tuple(own[-w:]))
        if isinstance(self.model, WritingPredictor):
            search = self.search or self.model.config.evaluation.search
            generator = Randomness(self.seed).torch("chat", len(turns))
            found = self.model.written([context], search, generator, n)[0]
            return list({one.text: one for one in found if one.text.strip()}.values())
        if not self.model.ranker.knows(context):
            return []
        said = {turn for turn, mine in zip(turns, own, strict=True) if mine}
        found = self.model.reply([context], PredictOptions(n_best=n + len(said)))[0]
        if isinstance(self.model.ranker, TermRanker):
            found = tuple(one for one in found if one.score > 0)  # the others have no word in common
        return [one for one in found if one.text not in said][:n]

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
            return _NOTHING_SAID
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
            return _NOTHING_SAID
        if rest and not (rest.isdecimal() and int(rest) > 0):
            return "(the number must be a positive integer: /best 5)"
        n = int(rest or 5)
        return "\n".join(f"{one.score:.3f}  {one.text}" for one in self.answers(n)) or NOTHING


def model_of_file(path: Path, encoding: str | None = None, columns: PairColumns = FOUND) -> RetrievalPredictor:
    """A BM25 model over the contexts and responses of a file of conversations, which needs no training.

    Args:
        path: the file.
        encoding: its encoding if it is not UTF-8.
        columns: the columns of contexts and responses; detected if not given.
    """
    settings = BM25Config(against="both")
    named = {"context_column": columns.source, "response_column": columns.target}
    asked = ConverseDataConfig(train=(str(path),), encoding=encoding, window=1).model_copy(update=named)
    config = ConverseConfig(model=settings, data=asked)
    tally = ReadCounter()
    train = [exchange for exchange in exchanges(path, config.data, tally) if exchange.responses]
    if not train:
        raise DataError(f"{path} has no context with a response. Use a file of conversations.")
    data = ConverseDataset(train, [], [], train, tally, {})
    texts, contexts = collect_responses(config, data)
    tokenizer = learn_tokenizer(config, data)
    documents = (tokenizer.tokens(f"{context} {text}") for text, context in zip(texts, contexts, strict=True))
    ranker = TermRanker(tokenizer, learn_terms(settings, documents), settings)
    return RetrievalPredictor(config, ranker, build_index(config, ranker, texts, contexts))
