"""Pictures and captions as training data: reading, pixels and features, captions as ids and back.

Pictures with captions: reading, splitting, and their storage as pixels or features. Imports no torch.

Pictures are listed first and loaded later. A picture that cannot be decoded, or has no features, is counted and listed
with its reason. Tested in tests/tasks/caption/test_data.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from catena.data.examples import SourceLocation
from catena.data.media import decode_images, list_files
from catena.data.media_files import media_kind
from catena.data.picture_features import FeatureFile, open_features
from catena.data.readers.captions import CaptionedPicture, detect_captions, read_captions
from catena.data.reading import NOT_DECODED, ReadCounter
from catena.data.special_tokens import BEGIN_SYMBOL, END_SYMBOL
from catena.data.tokenize import build_tokenizer
from catena.data.vocabulary import PAD, UNK, Vocabulary
from catena.errors import DataError
from catena.extras import require
from catena.metrics.translation import words_only
from catena.search.text_constraints import TextConstraints
from catena.seq2seq.base import VocabularyInfo
from catena.seq2seq.caption_config import FeatureEncoderConfig
from catena.tasks.caption.config import CaptionConfig, CaptionDataConfig
from catena.tasks.sources import Sources
from catena.tasks.translate.constraints import NO_CONSTRAINTS
from catena.tasks.translate.encoding import SPECIALS, TextEncoding


class CaptionEncoding:
    """The tokenizer and vocabulary of captions."""

    def __init__(self, target: TextEncoding) -> None:
        self.target = target
        self.vocabulary, self.tokenizer = target.vocabulary, target.tokenizer
        self.begin, self.end = (self.vocabulary.special(name) for name in (BEGIN_SYMBOL, END_SYMBOL))

    @classmethod
    def fit(cls, config: CaptionConfig, captions: Sequence[str]) -> CaptionEncoding:
        """The encoding with the words of captions."""
        tokenizer = build_tokenizer(config.tokenizer, captions)
        words = (tokenizer.tokens(caption) for caption in captions)
        return cls(TextEncoding(tokenizer, Vocabulary.count(words, config.vocabulary, SPECIALS)))

    def ids(self, caption: str) -> np.ndarray:
        """The ids of a caption with its end symbol."""
        return np.append(self.target.ids(self.tokenizer.tokens(caption)), self.end)

    def text(self, ids: Iterable[int]) -> str:
        """The caption of ids, on one line."""
        return " ".join(self.tokenizer.join(self.vocabulary.tokens(ids)).split())

    def sides(self, n_captions: int = 1) -> VocabularyInfo:
        """Vocabulary size, counts and special ids for building a model of ``n_captions`` training captions."""
        counts = list(self.vocabulary.counts)
        counts[self.end] = n_captions
        never = (PAD, UNK, self.begin) if self.tokenizer.symbols else (PAD, self.begin)
        return VocabularyInfo(n_source=0, counts=counts, begin=self.begin, end=self.end, forbidden=never)

    def save(self, folder: Path) -> None:
        self.target.save(folder, "")

    @classmethod
    def load(cls, folder: Path) -> CaptionEncoding:
        """Load the encoding written by :meth:`save`."""
        return cls(TextEncoding.load(folder, ""))


# --- pictures ---------------------------------------------------------------------------------------------------------


PARTS = ("train", "dev", "test")


@dataclass(frozen=True, eq=False)
class CaptionExample:
    """A picture with its references, which are empty if they are not known.

    Args:
        path: the picture file.
        captions: the references.
        content: pixels (height, width, 3), or features (positions, d).
        constraints: constraints on the generated caption.
    """

    path: Path
    captions: tuple[str, ...]
    location: SourceLocation
    content: np.ndarray
    constraints: TextConstraints = NO_CONSTRAINTS


@dataclass(frozen=True, eq=False)
class CaptionRows:
    """Captions as ids, and the pictures that they describe.

    Args:
        contents: pixels or features of all pictures of the dataset, by index.
        pictures: the pictures of these rows, each once.
        own: the index of each of them in the contents.
        rows: the index in the contents of the picture of each caption.
        targets: the ids of each caption.
        lengths: their numbers, with the end symbol.
    """

    contents: Any
    pictures: list[CaptionedPicture]
    own: np.ndarray
    rows: np.ndarray
    targets: list[np.ndarray]
    lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.targets)

    def by_picture(self) -> list[np.ndarray]:
        """The indices of the captions of each picture that has any."""
        order = np.argsort(self.rows, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(self.rows[order])) + 1) if len(order) else []


# --- reading ----------------------------------------------------------------------------------------------------------


def list_pictures(
    data: CaptionDataConfig, path: Path, counter: ReadCounter, *, gold: bool = True
) -> list[CaptionedPicture]:
    """The pictures of a file of captions; with ``gold=False`` also those of a folder, or one picture itself."""
    if path.is_dir() or media_kind(path) == "picture":
        if gold:
            raise DataError(f"{path} has no captions. Pass a table with a column of file names and one of captions.")
        if not path.exists() and data.features is None:
            raise DataError(f"File not found: {path}. Check the path.")
        files = [file for file in list_files(path) if media_kind(file) == "picture"] if path.is_dir() else [path]
        return list(counter.seen(CaptionedPicture(file, (), SourceLocation(str(file), 1)) for file in files))
    own = ReadCounter()
    pictures = read_captions(
        path,
        own,
        format=data.input_format,
        images=Path(data.images) if data.images else None,
        columns=data.columns,
        encoding=data.encoding,
        gold=gold,
    )
    chosen = [one for one in pictures if data.part is None or one.part in ("", data.part)]
    counter.saw(len(chosen) + len(own.dropped))
    counter.dropped.extend(own.dropped)
    return [replace(one, captions=tuple(clean_caption(text, data) for text in one.captions)) for one in chosen]


def clean_caption(text: str, data: CaptionDataConfig) -> str:
    """A caption as the model learns it."""
    return text if data.punctuation else words_only(text)


def describe_file(data: CaptionDataConfig, path: Path) -> str:
    """The format of a file."""
    found = detect_captions(path, data.encoding) if data.input_format == "auto" else data.input_format
    return f"{path.name} is a {'table of captions' if found == 'table' else f'file of captions ({found})'}"


# --- pixels and features ----------------------------------------------------------------------------------------------


def open_feature_file(config: CaptionConfig) -> FeatureFile | None:
    """The features of a config; None if it reads pixels."""
    return None if config.data.features is None else open_features(config.data.features)


def load_contents(
    config: CaptionConfig, pictures: Sequence[CaptionedPicture], counter: ReadCounter, *, use_cache: bool = False
) -> tuple[Any, list[int]]:
    """The pixels or features of pictures.

    Returns:
        The contents of all that can be loaded, and the index of each in ``pictures``; the others are dropped.
    """
    dropped = ReadCounter()
    paths = [one.path for one in pictures]
    features = open_feature_file(config)
    if features is None:
        require("PIL.Image", "vision", "reading pictures")
        cache = Path(config.data.cache) if use_cache and config.data.cache else None
        images = decode_images(paths, config.model.input, dropped, cache=cache)
        contents, kept = images.pixels, images.files.tolist()
        contents = contents if len(kept) == len(paths) else contents[kept]
    else:
        kept = [i for i, path in enumerate(paths) if path in features]
        for i in sorted({*range(len(paths))} - set(kept)):
            dropped.drop("without features", pictures[i].location, features.missing(paths[i]))
        contents = _stack([_checked(features.get(paths[i]), config, paths[i]) for i in kept])
    counter.dropped.extend(dropped.dropped)
    return contents, kept


def _checked(features: np.ndarray, config: CaptionConfig, path: Path) -> np.ndarray:
    encoder = config.model.encoder
    assert isinstance(encoder, FeatureEncoderConfig)
    if features.shape[1] != encoder.d_features or len(features) > encoder.n_positions:
        raise DataError(
            f"The features of {path.name} must have the shape ({encoder.n_positions}, {encoder.d_features}) or fewer "
            f"rows, got {features.shape}. Compute them with the network of the training pictures."
        )
    return features


def _stack(arrays: list[np.ndarray]) -> Any:
    """One array if all have the same shape."""
    return np.stack(arrays) if len({array.shape for array in arrays}) == 1 else arrays


def load_examples(
    config: CaptionConfig, pictures: Sequence[CaptionedPicture], counter: ReadCounter
) -> list[CaptionExample]:
    """Pictures with their contents; those that cannot be loaded are dropped."""
    contents, kept = load_contents(config, pictures, counter)
    return [
        CaptionExample(pictures[i].path, pictures[i].captions, pictures[i].location, contents[k])
        for k, i in enumerate(kept)
    ]


# --- training data ----------------------------------------------------------------------------------------------------


def load_parts(
    config: CaptionConfig, sources: Sources[CaptionExample]
) -> tuple[list[CaptionedPicture], Any, dict[str, np.ndarray]]:
    """All pictures that can be loaded, their contents, and the indices of train, dev and test."""
    listed: dict[str, list[Any]] = {}
    for part in PARTS:
        given = list(sources.read(part)) if part in sources.given else []
        paths = [one for path in sources.paths(part) for one in list_pictures(config.data, path, sources.counter)]
        listed[part] = given or paths
    if not listed["train"]:
        sources.check("train", 0)
    if sources.given:
        every = [CaptionedPicture(e.path, e.captions, e.location) for part in PARTS for e in listed[part]]
        contents: Any = _stack([example.content for part in PARTS for example in listed[part]])
        return every, contents, _split(config, sources, listed)
    every = [one for part in PARTS for one in listed[part]]
    contents, kept = load_contents(config, every, sources.counter, use_cache=True)
    good = set(kept)
    first = 0
    for part in PARTS:
        n = len(listed[part])
        listed[part] = [one for i, one in enumerate(listed[part], start=first) if i in good]
        first += n
    if not listed["train"]:
        first_error = next((one.text for one in sources.counter.dropped if one.reason == NOT_DECODED), "")
        raise DataError(f"No picture of train can be used. {first_error or 'Check the files and --images.'}")
    return [every[i] for i in kept], contents, _split(config, sources, listed)


def _split(
    config: CaptionConfig, sources: Sources[CaptionExample], listed: dict[str, list[Any]]
) -> dict[str, np.ndarray]:
    """The indices of train, dev and test: by the splits of the training files if they have any, or by a hash."""
    sizes = [len(listed[part]) for part in PARTS]
    train, dev, test = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    named = np.array([getattr(one, "part", "") for one in listed["train"]])
    if (named != "").any():
        parts = {part: train[named == part] for part in ("dev", "test")}
        dev = dev if "dev" in sources else parts["dev"]
        test = test if "test" in sources else parts["test"]
        train = train[(named == "train") | (named == "")]
    if not len(dev):
        splits = config.data.splits(has_dev=False, has_test=True, seed=config.seed)
        index = splits.rows([split_key(listed["train"][i].path) for i in train.tolist()])
        train, dev = train[index.train], train[index.dev]
    sources.check("train", len(train))
    sources.check("dev", len(dev))
    return {"train": train, "dev": dev, "test": test}


def split_key(path: Path) -> str:
    """The text by whose hash a picture is assigned to a part: its name, so that the data may be moved."""
    return path.name
