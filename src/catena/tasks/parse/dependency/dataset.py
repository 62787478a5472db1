"""From CoNLL-U files to arrays: read, check and count, split, choose vocabularies and relations, encode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from catena.data.batches import pad
from catena.data.detect import UNKNOWN as UNKNOWN_FORMAT
from catena.data.detect import detect_format
from catena.data.examples import ConlluSentence
from catena.data.readers.conllu import read
from catena.data.readers.table import FORMATS
from catena.data.reading import ReadCounter
from catena.data.vocabulary import Labels, Vocabulary
from catena.errors import DataError, FormatError
from catena.metrics.attachment import DependencyArc, nonprojective_words
from catena.randomness import Randomness
from catena.structure.dependency import ArcConstraint
from catena.structure.projective import ProjectiveTree
from catena.tasks.parse.config import ParseConfig, ParseDataConfig
from catena.tasks.parse.dependency.config import BiaffineParserConfig
from catena.tasks.parse.dependency.loss import GoldDependencyTrees
from catena.tasks.parse.dependency.trees import UNKNOWN, check_tree, projectivize, word_location
from catena.tasks.unseen import unseen_line
from catena.tasks.words.encoding import EncodedSentences, WordEncoding
from catena.tasks.words.sentences import Sentence, to_sentence


@dataclass(frozen=True, eq=False)
class DependencyDataset:
    """Everything that training needs.

    ``heads[i]`` and ``relations[i]`` belong to sentence ``i``, -1 if not known; ``examples`` are the sentences of
    dev and test by their row.
    """

    encoding: WordEncoding
    names: Labels
    sentences: EncodedSentences
    heads: list[np.ndarray]
    relations: list[np.ndarray]
    train: np.ndarray
    dev: np.ndarray
    test: np.ndarray
    examples: Mapping[int, ConlluSentence]
    lines: list[str] = field(default_factory=list)
    tally: ReadCounter = field(default_factory=ReadCounter)

    def gold(self, rows: np.ndarray, device: torch.device) -> GoldDependencyTrees:
        """The gold trees of some sentences, as a batch."""
        heads, _ = pad([self.heads[int(i)] for i in rows], UNKNOWN)
        relations, _ = pad([self.relations[int(i)] for i in rows], UNKNOWN)
        whole = not any((self.heads[int(i)] < 0).any() for i in rows)
        return GoldDependencyTrees(heads.to(device), relations.to(device), whole)


# --- reading ----------------------------------------------------------------------------------------------------------


def read_sentences(data: ParseDataConfig, path: Path | str, to_score: bool = False) -> Iterator[ConlluSentence]:
    """The sentences of a CoNLL-U file. Raise FormatError for other formats, with a hint that fits ``to_score``."""
    if data.format not in ("auto", "conllu"):
        raise FormatError(f"data.format must be 'conllu' for dependency trees, got {data.format!r}. Remove it.")
    if data.format == "auto":
        found = detect_format(Path(path), data.encoding)
        if found.format != "conllu":
            if found.format == UNKNOWN_FORMAT:
                raise FormatError(f"{found.why.removesuffix('.')}. Give a CoNLL-U file.")
            rules = (
                " For the rules of a grammar, use --model grammar." if found.format == "text" and not to_score else ""
            )
            raise FormatError(
                f"{path} looks like {FORMATS[found.format].title} ({found.why}), but dependency trees are read from "
                f"CoNLL-U. Give a CoNLL-U file, or name the format: --format conllu in train, --input-format conllu in "
                f"other commands.{rules}"
            )
    yield from read(path, encoding=data.encoding)


def parser_input(sentence: ConlluSentence, columns: Sequence[str]) -> Sentence:
    """The input of a parser for a sentence."""
    return to_sentence(sentence, columns)


def to_attachments(sentence: ConlluSentence) -> list[DependencyArc]:
    """A sentence in the representation of the metrics; every word must have its head."""
    return [DependencyArc(int(word.head), word.deprel, word.upos, word.feats) for word in sentence.words]


def _gather(config: ParseConfig, tally: ReadCounter) -> dict[str, list[tuple[ConlluSentence, list[int]]]]:
    """The sentences of every file with their heads, without those that training cannot use."""
    data, model = config.data, config.model
    assert isinstance(model, BiaffineParserConfig)
    if not data.train:
        raise DataError("there is nothing to train on: name a file, as in 'catena train parse FILE'")
    parts: dict[str, Sequence[str]] = {"train": data.train}
    parts |= {name: [path] for name, path in (("dev", data.dev), ("test", data.test)) if path is not None}
    found: dict[str, list[tuple[ConlluSentence, list[int]]]] = {}
    for part, paths in parts.items():
        found[part] = []
        for path in paths:
            for sentence in tally.seen(read_sentences(data, path)):
                heads = check_tree(sentence, model.single_root, whole=part != "train")
                reason = _why_not(heads, data.max_length, model) if part == "train" else None
                if reason is None:
                    found[part].append((sentence, heads))
                else:
                    tally.drop(reason, sentence.place, " ".join(word.form for word in sentence.words))
    return found


def _why_not(heads: list[int], most: int, model: BiaffineParserConfig) -> str | None:
    if len(heads) > most:
        return f"longer than max_length={most}"
    if all(head == UNKNOWN for head in heads):
        return "without any head"
    if UNKNOWN not in heads:
        return None
    if model.loss == "margin":
        return "without all heads, which loss = margin needs"
    if model.loss == "eisner" and not _may_be_projective(heads, model.single_root):
        return "partly annotated with crossing arcs, which loss = eisner cannot use"
    return None


def _may_be_projective(heads: list[int], single_root: bool) -> bool:
    n = len(heads) + 1
    given = ArcConstraint.partial(torch.tensor([heads]))
    tree = ProjectiveTree(torch.zeros(1, n, n), single_root=single_root, constraint=given, on_infeasible="-inf")
    return bool(tree.log_partition().isfinite())


# --- the whole --------------------------------------------------------------------------------------------------------


def prepare(
    config: ParseConfig,
    randomness: Randomness,
    encoding: WordEncoding | None = None,
    names: Labels | None = None,
    words: Vocabulary | None = None,
) -> DependencyDataset:
    """Read the files of a config into a dataset.

    Args:
        config: the config of the task.
        randomness: splits dev from train if there is no dev file.
        encoding: the encoding of a trained model, if training starts from it.
        names: the relations of this model.
        words: the vocabulary of a pretrained language model.
    """
    model = config.model
    assert isinstance(model, BiaffineParserConfig)
    tally = ReadCounter()
    found = _gather(config, tally)
    both = [pair for part in found.values() for pair in part]
    train, dev, test = _rows(config, {part: len(pairs) for part, pairs in found.items()}, randomness)
    columns = model.words.columns
    if encoding is None:
        encoding = WordEncoding.count(model.words, (parser_input(both[i][0], columns) for i in train), words)
    if names is None:
        names = Labels.count(_known_relations(both[i][0]) for i in train)
    if not len(names):
        raise DataError("No word of train has both a head and a relation. Fill the columns HEAD and DEPREL.")
    sentences = encoding.encode(parser_input(sentence, columns) for sentence, _ in both)
    in_train = np.zeros(len(both), bool)
    in_train[train] = True
    relations = [_relation_ids(s, names, must_know=bool(in_train[i])) for i, (s, _) in enumerate(both)]
    heads, n_lifted = _learned_heads([h for _, h in both], in_train, model)
    examples = {int(i): both[i][0] for i in (*dev, *test)}
    lines = [
        *_describe_files(config),
        tally.counts(len(both)).sentence(),
        *_describe(encoding, sentences, train, dev, test),
        f"{len(names)} relations: {_most_frequent(names)}",
    ]
    unseen = unseen_line(count_unseen(examples.values(), names), "dev and test", "words have a relation")
    lines += [unseen] if unseen else []
    if n_lifted:
        lines.append(f"{n_lifted:,} sentences have crossing arcs, which are lifted to make the trees projective")
    arrays = [np.array(h, np.int64) for h in heads]
    return DependencyDataset(encoding, names, sentences, arrays, relations, train, dev, test, examples, lines, tally)


def _learned_heads(
    heads: list[list[int]], in_train: np.ndarray, model: BiaffineParserConfig
) -> tuple[list[list[int]], int]:
    """Heads with a nonzero probability under the loss, and the number of train sentences changed for it."""
    projective = model.loss == "eisner" or (model.loss == "margin" and model.trees == "projective")
    n, found = 0, []
    for own, learned in zip(heads, in_train.tolist(), strict=True):
        crosses = projective and learned and UNKNOWN not in own and bool(nonprojective_words(own))
        found.append(projectivize(own) if crosses else own)
        n += crosses
    return found, n


def _known_relations(sentence: ConlluSentence) -> list[str]:
    return [word.deprel for word in sentence.words if word.deprel != "_" and word.head != "_"]


def count_unseen(sentences: Iterable[ConlluSentence], names: Labels) -> Counter[str]:
    """Count the gold relations of sentences that are not in ``names``, both without subtypes, as in LAS."""
    known = {name.split(":", 1)[0] for name in names.names}
    found = (name.split(":", 1)[0] for one in sentences for name in _known_relations(one))
    return Counter(name for name in found if name not in known)


def _relation_ids(sentence: ConlluSentence, names: Labels, must_know: bool) -> np.ndarray:
    """The ids of relations; -1 if they are not known. Those of dev and test may be new."""
    ids = []
    for number, word in enumerate(sentence.words, start=1):
        if word.deprel in names:
            ids.append(names.id(word.deprel))
        elif must_know and word.deprel != "_" and word.head != "_":
            try:
                names.id(word.deprel)
            except DataError as error:
                raise DataError(f"{word_location(sentence, number)}: {error}") from None
        else:
            ids.append(UNKNOWN)
    return np.array(ids, np.int64)


def _rows(
    config: ParseConfig, sizes: Mapping[str, int], randomness: Randomness
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows of train, dev and test."""
    data, starts = config.data, {}
    total = 0
    for part, size in sizes.items():
        starts[part] = np.arange(total, total + size)
        total += size
    train, none = starts["train"], np.zeros(0, np.int64)
    test, dev = starts.get("test", none), starts.get("dev")
    if dev is not None and not len(dev):
        raise DataError(f"{data.dev} has no sentences. Name another dev file, or remove it.")
    if data.folds is not None:
        if len(train) < data.folds:
            raise DataError(
                f"data.folds must be at most the number of sentences, {len(train)}, got {data.folds}. Lower data.folds."
            )
        order = train[randomness.numpy("folds").permutation(len(train))]
        inside = np.array_split(order, data.folds)[data.fold or 0]
        train, test = np.setdiff1d(train, inside), np.sort(inside)
    if dev is None and len(train) >= 2:
        order = train[randomness.numpy("dev", data.fold or 0).permutation(len(train))]
        held = min(max(1, round(data.dev_fraction * len(train))), len(train) - 1)
        train, dev = np.sort(order[held:]), np.sort(order[:held])
    if dev is None or not len(train):
        left = "1 sentence is" if len(train) == 1 else f"{len(train)} sentences are"
        raise DataError(
            f"{left} left to learn from, which cannot be split into train and dev. Check that blank lines separate the "
            f"sentences and that none were dropped, or give a dev file with --dev."
        )
    return train, dev, test


def _describe_files(config: ParseConfig) -> Iterator[str]:
    for part, path in config.data.files().items():
        shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        yield f"{part}: {shown}"


def _describe(
    encoding: WordEncoding, sentences: EncodedSentences, train: np.ndarray, dev: np.ndarray, test: np.ndarray
) -> Iterator[str]:
    for part, rows in (("train", train), ("dev", dev), ("test", test)):
        if len(rows):
            lengths = sentences.lengths[rows]
            line = f"{part}: {len(rows):,} sentences, {lengths.sum():,} words, {lengths.max():,} in the longest"
            unknown = 100 * encoding.unknown_fraction(sentences, rows.tolist())
            yield line + (f", {unknown:.1f} % of the words unknown" if part != "train" else "")


def _most_frequent(names: Labels) -> str:
    most = sorted(zip(names.counts, names.names, strict=True), reverse=True)
    listed = ", ".join(f"{name} {count:,}" for count, name in most[:8])
    return listed + (f", and {len(most) - 8} more" if len(most) > 8 else "")
