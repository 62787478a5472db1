"""The dependency parser as a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, repeat
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from catena.checkpoint.folder import read_json
from catena.data.batches import pad
from catena.data.examples import ConlluRow, ConlluSentence, SourceLocation, get_text
from catena.data.readers.conllu import NO_HEAD, find_head_problem, read
from catena.data.reading import Dropped
from catena.data.vocabulary import Labels
from catena.draw.arcs import draw_arcs
from catena.draw.picture import Picture
from catena.errors import DataError
from catena.metrics.attachment import nonprojective_words
from catena.tasks.base import DataParts, Origin, by_length, first_ranked
from catena.tasks.config import model_section
from catena.tasks.neural import Dataset
from catena.tasks.parse.config import ConstrainedParseOptions, ParseConfig
from catena.tasks.parse.data import DependencyExample, ParseExample
from catena.tasks.parse.dependency.config import BiaffineParserConfig
from catena.tasks.parse.dependency.decode import DependencyDecoder, Parse, allowed_arcs
from catena.tasks.parse.dependency.model import (
    UNKNOWN,
    BiaffineParser,
    GoldDependencyTrees,
    build_parser,
    crossing_fraction,
    get_heads,
    known_relations,
    projectivize,
    reason_to_drop,
    require_heads,
    sentence_losses,
    to_arcs,
    word_location,
)
from catena.tasks.parse.predict import DependencyEvaluation, DependencyPrediction, count_unseen, set_tree
from catena.tasks.parse.task import NeuralParseTask, ParseRows, describe_sizes
from catena.tasks.pretrained import initial_vectors
from catena.tasks.sources import unseen_line
from catena.tasks.word_inputs.config import WordInputConfig
from catena.tasks.word_inputs.encoding import WordBatch, WordEncoding
from catena.tasks.word_inputs.sentences import Sentence, column_values, to_sentence
from catena.tasks.word_inputs.task import WordTask
from catena.training.task import BatchLoss

RELATIONS = "relations.json"
_CROSSING = "crossing_arcs.json"
_FEW_CROSSING = 0.01
# Measured on Czech-CLTT (0.4 % crossing arcs) and a tenth of EWT (0.2 %): projective trees gain 4.9 and 1.0 points of
# LAS on dev after 400 steps of the same network.

_CPU_WORDS = 1000
"""Words of a batch on a CPU. Larger ones have more padding and outgrow the cache: 400 sentences of EWT took 477 ms of
CPU time with 1,000 words, 494 with 600 and 583 with 5,000 (AMD EPYC, one thread)."""


@dataclass(frozen=True, eq=False)
class DependencyEncoding:
    """The vocabularies of words, the relations, and the fraction of the arcs of train that cross others."""

    words: WordEncoding
    relations: Labels
    crossing: float = 0.0

    def save(self, folder: Path) -> None:
        self.words.save(folder)
        self.relations.save(folder / RELATIONS)
        (folder / _CROSSING).write_text(f"{self.crossing!r}\n", encoding="utf-8")

    @classmethod
    def load(cls, settings: WordInputConfig, folder: Path) -> DependencyEncoding:
        path = folder / _CROSSING  # older runs name their trees
        crossing = float(read_json(path)) if path.exists() else 0.0
        return cls(WordEncoding.load(settings, folder), Labels.load(folder / RELATIONS), crossing)


@dataclass(frozen=True)
class DependencyBatch:
    """Sentences and their trees; ``known`` is the number of words with a known head."""

    words: WordBatch
    gold: GoldDependencyTrees
    known: int


class DependencyTask(
    WordTask[ParseConfig, DependencyExample, DependencyPrediction, ConstrainedParseOptions],
    NeuralParseTask[ConlluSentence, DependencyPrediction, ConstrainedParseOptions],
):
    """A dependency parser with biaffine scores."""

    options_class = ConstrainedParseOptions
    formats = ("conllu", "tree", "tsv", "csv", "jsonl")
    tree_format = "conllu"
    cures: ClassVar[Mapping[str, str]] = {
        "brackets": "For phrase structure, use --model span.",
        "text": "For the rules of a grammar, use --model grammar.",
    }
    evaluation = DependencyEvaluation

    def __init__(self, config: ParseConfig, encoding: DependencyEncoding, network: BiaffineParser) -> None:
        super().__init__(config, encoding, network)
        self.settings, self.relations, self.parser = _choose_trees(config, encoding), encoding.relations, network
        self._n_lifted = 0

    # --- data ---------------------------------------------------------------------------------------------------------

    @classmethod
    def from_tree(cls, config: ParseConfig, tree: ConlluSentence) -> DependencyExample | Dropped:
        problem = find_head_problem(tree, single_root=False)
        if problem is not None and problem[1] != NO_HEAD:
            return Dropped(SourceLocation(tree.location.file, problem[0]), problem[1], get_text(tree))
        return ParseExample(tuple(word.form for word in tree.words), tree, tree.location)

    @classmethod
    def why_unscorable(cls, example: DependencyExample) -> str | None:
        return NO_HEAD if any(word.head == "_" for word in example.tree.words) else None

    @classmethod
    def from_input(cls, config: ParseConfig, example: ParseExample[Any], item: Any) -> DependencyExample:
        if isinstance(item, ConlluSentence):
            return replace(example, tree=item)
        if columns := model_section(config, BiaffineParserConfig).words.columns:
            raise DataError(
                f"this parser reads {', '.join(columns)} of each word, which plain text does not have. Give CoNLL-U "
                f"with these columns filled, for example by a tagger."
            )
        rows = tuple(map(ConlluRow, map(str, count(1)), example.words, *[repeat("_")] * 8))
        comments = () if example.text is None else (f"# text = {' '.join(example.text.split())}",)
        return replace(example, tree=ConlluSentence(rows, comments, example.location))

    @classmethod
    def read_constraints(cls, path: Path) -> Iterator[ConlluSentence]:
        return read(path)

    @classmethod
    def fit_encoding(
        cls, config: ParseConfig, train: Sequence[DependencyExample], origin: Origin
    ) -> DependencyEncoding:
        settings = model_section(config, BiaffineParserConfig).words
        words = origin.pretrained.encoding.vocabulary if origin.pretrained else None
        sentences = (to_sentence(example.tree, settings.columns) for example in train)
        relations = Labels.count(known_relations(example.tree) for example in train)
        if not len(relations):
            raise DataError("No word of train has both a head and a relation. Fill the columns HEAD and DEPREL.")
        crossing = crossing_fraction(get_heads(example.tree) for example in train)
        return DependencyEncoding(WordEncoding.count(settings, sentences, words), relations, crossing)

    @classmethod
    def load_encoding(cls, config: ParseConfig, folder: Path) -> DependencyEncoding:
        return DependencyEncoding.load(model_section(config, BiaffineParserConfig).words, folder)

    @classmethod
    def build_network(
        cls, config: ParseConfig, encoding: DependencyEncoding, report: list[str] | None = None
    ) -> BiaffineParser:
        settings = model_section(config, BiaffineParserConfig)
        vectors = initial_vectors(settings.words.embedding, encoding.words.words, report)
        return build_parser(settings, encoding.words, len(encoding.relations), vectors)

    def usable(self, example: DependencyExample) -> DependencyExample | str:
        """The sentence with a tree that has a nonzero probability under the loss."""
        tree, settings = example.tree, self.settings
        problem = find_head_problem(tree, settings.single_root)
        if problem is not None and problem[1] != NO_HEAD:
            return problem[1]
        heads = get_heads(tree)
        if (reason := reason_to_drop(heads, self.config.data.max_length, settings)) is not None:
            return reason
        projective = settings.loss == "eisner" or (settings.loss == "margin" and settings.trees == "projective")
        if not projective or UNKNOWN in heads or not nonprojective_words(heads):
            return example
        self._n_lifted += 1
        return replace(example, tree=set_tree(tree, projectivize(heads), [word.deprel for word in tree.words]))

    def summarize(self, parts: DataParts[DependencyExample], data: Dataset) -> list[str]:
        trees = [example.tree for example in (*parts.dev, *parts.test)]
        unseen = count_unseen((name for tree in trees for name in known_relations(tree)), self.relations)
        lines = [
            *describe_sizes(parts, self.encoding.words.unknown_fractions(data)),
            f"{len(self.relations)} relations: {self.relations.describe(8)}",
            unseen_line(unseen, "dev and test", "words have a relation"),
        ]
        if self._n_lifted:
            lines.append(
                f"{self._n_lifted:,} sentences have crossing arcs, which are lifted to make the trees projective"
            )
        return [line for line in lines if line]

    # --- training -----------------------------------------------------------------------------------------------------

    def encode(self, examples: Sequence[DependencyExample], *, gold: bool = True) -> ParseRows:
        names = self.settings.words.columns
        columns = (tuple(column_values(example.tree, name) for name in names) for example in examples)
        words = self.encoding.words.encode(map(Sentence, (example.words for example in examples), columns))
        return ParseRows(examples, words, words.lengths)

    def encode_tree(self, example: DependencyExample) -> tuple[np.ndarray, np.ndarray]:
        """The heads and relations of the words, -1 if they are not known."""
        relations = []
        for number, word in enumerate(example.tree.words, start=1):
            try:
                known = word.deprel != "_" and word.head != "_"
                relations.append(self.relations.id(word.deprel) if known else UNKNOWN)
            except DataError as error:
                raise DataError(f"{word_location(example.tree, number)}: {error}") from None
        return np.array(get_heads(example.tree), np.int64), np.array(relations, np.int64)

    def collate(self, rows: ParseRows, index: np.ndarray) -> DependencyBatch:
        trees = self.encoded_trees(rows, index)
        known = sum(int((heads >= 0).sum()) for heads, _ in trees)
        words = rows.words.batch(index, self.device)
        heads, relations = (pad(side, UNKNOWN)[0].to(self.device) for side in zip(*trees, strict=True))
        return DependencyBatch(words, GoldDependencyTrees(heads, relations, whole=known == words.tokens), known)

    def loss(self, batch: DependencyBatch) -> BatchLoss:
        losses = sentence_losses(self.settings, self.parser(batch.words), batch.gold)
        return BatchLoss(losses.sum() / batch.known, batch.known, batch.words.tokens)

    # --- prediction ---------------------------------------------------------------------------------------------------

    def parse_rows(self, rows: ParseRows, options: ConstrainedParseOptions) -> list[DependencyPrediction]:
        generator = torch.Generator().manual_seed(options.seed)

        def predict(index: np.ndarray) -> list[DependencyPrediction]:
            examples = [rows.examples[i] for i in index]
            allowed = None if options.constraint is None else allowed_arcs(examples, self.relations)
            with torch.inference_mode():
                scores = self.parser(rows.words.batch(index, self.device))
                decoder = DependencyDecoder(self.settings, scores, self.relations, allowed)
                parses = decoder.parses(options, generator)
            return [self._prediction(*pair, options) for pair in zip(examples, parses, strict=True)]

        at_once = self.config.evaluation.words_at_once
        return by_length(rows.lengths, min(at_once, _CPU_WORDS) if self.device.type == "cpu" else at_once, predict)

    def _prediction(
        self, example: DependencyExample, parses: Sequence[Parse], options: ConstrainedParseOptions
    ) -> DependencyPrediction:
        if not parses:
            raise DataError(
                f"{example.constraint.location}: this constraint allows no tree "
                f"({'projective' if self.settings.trees == 'projective' else 'any'} trees"
                f"{' with one root' if self.settings.single_root else ''}). Remove part of it."
            )
        if not (options.scores or options.several):
            parses = [parse._replace(log_prob=None) for parse in parses]
        made = [
            DependencyPrediction(words=example.words, text=example.text, sentence=example.tree, **parse._asdict())
            for parse in parses
        ]
        return first_ranked(made, options.several)

    def predict_empty(self, example: DependencyExample, options: ConstrainedParseOptions) -> DependencyPrediction:
        empty = Parse((), (), options.missing_score, () if options.confidence else None)
        return self._prediction(example, [empty], options)

    def compare(
        self, examples: Sequence[DependencyExample], predictions: Sequence[DependencyPrediction]
    ) -> DependencyEvaluation:
        gold, own = [], []
        for example, one in zip(examples, predictions, strict=True):
            tree = example.tree
            gold.append(to_arcs(tree, require_heads(tree), [word.deprel for word in tree.words]))
            own.append(to_arcs(tree, one.heads, one.relations))
        return DependencyEvaluation([example.words for example in examples], gold, own, self.relations)

    # --- reports ------------------------------------------------------------------------------------------------------

    def draw(self, example: DependencyExample, options: ConstrainedParseOptions) -> Picture:
        one = self.predict_to_draw(example, options)
        return draw_arcs(one.words, one.heads, one.relations, probabilities=one.confidence)

    def describe(self, top: int) -> list[str]:
        return [
            f"a biaffine dependency parser: {self.settings.trees} trees, trained by {self.settings.loss}, "
            f"{len(self.encoding.words.words):,} words, {len(self.relations)} relations, {self.n_parameters:,} "
            f"parameters",
            f"relations: {self.relations.describe(top)}",
        ]


def _choose_trees(config: ParseConfig, encoding: DependencyEncoding) -> BiaffineParserConfig:
    """The options of the model, with the trees that suit the training data if they are not set."""
    settings = model_section(config, BiaffineParserConfig)
    if settings.trees != "auto":
        return settings
    projective = settings.loss == "eisner" or encoding.crossing < _FEW_CROSSING
    return settings.model_copy(update={"trees": "projective" if projective else "nonprojective"})
