"""The tasks: what each is for, its config, its models and its estimator. Imports no torch.

A task is declared here by names, so that ``catena --help`` imports none of its modules.

Tested in tests/tasks/test_toy_task.py.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catena import config as configs
from catena.config import Config, read_toml
from catena.errors import ConfigError
from catena.registry import Registry, did_you_mean

if TYPE_CHECKING:
    from catena.tasks.base import BaseTask, Runner
    from catena.tasks.options import PredictOptions


@dataclass(frozen=True)
class TaskSpec:
    """The declaration of a task. Classes are named as ``module:Class``; ``.module`` is relative to ``catena.tasks``.

    Args:
        name: its name on the command line.
        summary: what it does, for help texts.
        config: its config, in a module that imports no torch.
        families: the class of each kind of model; ``""`` is for kinds that are not listed.
        runner: a class that trains and loads models instead of families, if the task has no examples.
        options: the options of ``predict``, in a module that imports no torch.
        formats: the data formats that imply this task if the user names none.
        estimator: its estimator, which :func:`catena.load` returns.
        estimators: the estimators of kinds of models that have another one.
        chooser: a function that returns the kind of model for the training files if the user names none, or None.
        example: the files and options of an example of ``catena train``.
        main_options: the most important options of the model, for the short help.
        implied_by: options that only this task has, so that they imply it.
        guide: its page in the docs.
    """

    name: str
    summary: str
    config: str
    families: Mapping[str, str] = field(default_factory=dict)
    runner: str = ""
    options: str = ".base:PredictOptions"
    formats: tuple[str, ...] = ()
    estimator: str = ""
    estimators: Mapping[str, str] = field(default_factory=dict)
    chooser: str | None = None
    example: str = "FILE"
    main_options: tuple[str, ...] = ("model",)
    implied_by: tuple[str, ...] = ()
    guide: str = "index.md"

    def config_class(self) -> type[Config]:
        """The class of its configs."""
        return _import(self.config)

    def options_class(self) -> type[PredictOptions]:
        """The class of the options of ``predict``."""
        return _import(self.options)

    def family(self, config: Any) -> type[BaseTask[Any, Any, Any, Any]]:
        """The class of the model that a config describes."""
        kind = str(getattr(config.model, configs.KIND, ""))
        return _import(self.families[kind if kind in self.families else ""])

    @property
    def has_examples(self) -> bool:
        """Whether the task learns from the examples of files, and predicts and evaluates them."""
        return not self.runner

    def get_runner(self) -> Runner:
        """What trains and loads the models of a task without examples."""
        return _import(self.runner)()

    def estimator_class(self, kind: str = "") -> type[Any]:
        """The class of the estimators of a kind of model."""
        return _import(self.estimators.get(kind, self.estimator))

    def choose_kind(self, values: Mapping[str, Any], files: Sequence[Path]) -> dict[str, Any]:
        """The config values with the kind of model that the training files need, if they do not name one."""
        named = configs.KIND in values.get("model", {})
        if self.chooser is None or named or not files:
            return dict(values)
        kind = _import(self.chooser)(files, values.get("data", {}).get("file_column"))
        return dict(values) if kind is None else {**values, "model": {configs.KIND: kind, **values.get("model", {})}}

    def load_config(self, path: Path) -> Any:
        """The config in a file."""
        return configs.load(self.config_class(), path)


def _import(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module, "catena.tasks"), attribute)


TASKS: Registry[TaskSpec] = Registry("task")
"""All tasks by name. Register your own with ``TASKS.register("name")(spec)``; see docs/new_task.md."""


def get_spec(name: str) -> TaskSpec:
    """The task with a name."""
    return TASKS[name]


def read_spec(path: Path) -> TaskSpec:
    """The task that a config file is for."""
    data, _ = read_toml(path)
    name = str(data.get("task"))
    if name not in TASKS:
        raise ConfigError(
            f"task in {path} must be the name of a task, got {name!r} ({did_you_mean(name, TASKS)}). Set task."
        )
    return TASKS[name]


def detect_spec(path: Path, encoding: str | None = None, labeled: bool = False, texts: bool = False) -> TaskSpec:
    """The task that a data file is for.

    Args:
        path: the data file.
        encoding: its encoding if it is not UTF-8.
        labeled: whether a column of labels is named, so that any table is for classify.
        texts: whether a column of texts is named, so that a table whose task is not clear is for classify.
    """
    from catena.data.detect import detect_format, detect_task
    from catena.data.tables import TABLE_FORMATS

    found = detect_format(path, encoding)
    if found.format in TABLE_FORMATS and (labeled or (texts and found.task is None)):
        return TASKS["classify"]
    return TASKS[detect_task(path, encoding)]


def detect_pairs(path: Path, columns: Mapping[str, str | None], encoding: str | None = None) -> TaskSpec:
    """The task of two columns of a table: sentences are translated, words are transduced.

    Args:
        path: the data file.
        columns: the columns ``source`` and ``target``, or None for those with common names.
        encoding: its encoding if it is not UTF-8.
    """
    from catena.data.reading import ReadCounter
    from catena.data.records import open_records
    from catena.data.roles import SOURCE, TARGET
    from catena.data.values import SENTENCE, mean_words

    given = {role: column for role, column in columns.items() if column is not None}
    file = open_records(path, (SOURCE, TARGET), columns=given, encoding=encoding)
    rows = list(islice(file.read(ReadCounter()), 200))
    sides = (mean_words(row[role] or "" for row in rows) for role in ("source", "target"))
    return TASKS["translate" if min(sides) >= SENTENCE else "transduce"]


for _spec in (
    TaskSpec(
        name="classify",
        summary="texts, pictures or sounds into classes",
        config=".classify.config:ClassifyConfig",
        options=".classify.config:ClassifyOptions",
        families={
            **dict.fromkeys(("tree_lstm", "recursive", "mv_rnn", "rntn"), ".classify.trees.task:TreeTask"),
            "picture": ".classify.media.pictures:PictureTask",
            "sound": ".classify.media.sounds:SoundTask",
            **dict.fromkeys(("loglinear", "perceptron"), ".classify.linear.task:LinearTask"),
            "tfidf": ".classify.linear.tfidf:TFIDFTask",
            "": ".classify.task:ClassifyTask",
        },
        formats=(
            *("csv", "tsv", "json", "jsonl", "xlsx", "parquet", "datasets", "first-word", "fasttext", "folders"),
            *("rasa", "pictures", "sounds"),
        ),
        estimator=".classify.estimator:TextClassifier",
        estimators=dict.fromkeys(("picture", "sound"), ".classify.media.estimator:MediaClassifier"),
        chooser=".classify.media.data:choose_kind",
        example="reviews.csv --dev dev.csv --max-time 5m -o runs/reviews",
        main_options=("model", "encoder", "tokenizer", "multilabel", "pretrained"),
        guide="classify.md",
    ),
    TaskSpec(
        name="regress",
        summary="numbers from texts, pictures, sounds and columns of numbers",
        config=".regress.config:RegressConfig",
        options=".regress.config:RegressOptions",
        families={
            **dict.fromkeys(("linear", "ridge", "kernel_ridge"), ".regress.fitted:FittedRegressTask"),
            "picture": ".regress.media:PictureRegressTask",
            "sound": ".regress.media:SoundRegressTask",
            "": ".regress.neural:NeuralRegressTask",
        },
        estimator=".regress.estimator:Regressor",
        example="ratings.csv --model ridge --baseline mean,svr -o runs/ratings",
        main_options=("model", "alpha", "variance", "number_columns", "tokenizer"),
        implied_by=("value-column", "number-columns"),
        guide="regress.md",
    ),
    TaskSpec(
        name="lm",
        summary="language models: score, complete and compare text, or recordings",
        config=".lm.config:LmConfig",
        options=".lm.config:LmOptions",
        families={
            "ngram": ".lm.counted:NgramLmTask",
            "mixture": ".lm.counted:MixtureLmTask",
            "wavenet": ".lm.sound.task:SoundLmTask",
            "": ".lm.neural:NeuralLmTask",
        },
        formats=("text",),
        estimator=".lm.estimator:LanguageModel",
        estimators={"wavenet": ".lm.sound.estimator:SoundModel"},
        chooser=".lm.sound.data:choose_kind",
        example="book.txt --model lstm --tokenizer characters --max-time 10m -o runs/book",
        main_options=("model", "order", "tokenizer", "unit", "objective"),
        guide="lm.md",
    ),
    TaskSpec(
        name="tag",
        summary="a tag for each word: parts of speech, named entities, chunks, lemmas, Chinese word segmentation",
        config=".tag.config:TagConfig",
        options=".tag.config:TagOptions",
        families={
            "neural": ".tag.task:NeuralTagTask",
            "features": ".tag.features.task:FeatureTagTask",
            "hmm": ".tag.hmm.task:HMMTagTask",
        },
        formats=("columns",),
        estimator=".tag.estimator:Tagger",
        example="news.conll --dev dev.conll --max-time 5m -o runs/ner",
        main_options=("model", "structure", "encoder", "scheme", "segment", "pretrained"),
        guide="tag.md",
    ),
    TaskSpec(
        name="parse",
        summary="sentences into trees: dependencies or phrase structure",
        config=".parse.config:ParseConfig",
        options=".parse.config:AllParseOptions",
        families={
            "biaffine": ".parse.dependency.task:DependencyTask",
            "span": ".parse.constituency.span.task:SpanTask",
            "seq2seq": ".parse.constituency.sequence.task:SequenceTask",
            "pcfg": ".parse.constituency.grammar.task:PCFGTask",
            "grammar": ".parse.constituency.grammar.task:WrittenGrammarTask",
        },
        formats=("conllu", "brackets"),
        estimator=".parse.estimator:Parser",
        example="train.conllu --dev dev.conllu --max-time 5m -o runs/parser",
        main_options=("model", "encoder", "loss", "trees", "pretrained"),
        guide="parse.md",
    ),
    TaskSpec(
        name="point",
        summary="positions of the input: sorting, convex hulls, triangulations, round trips, or your own data",
        config=".point.config:PointConfig",
        options=".point.config:PointOptions",
        families={"": ".point.task:PointTask"},
        estimator=".point.estimator:Pointer",
        example="--problem hull --size 20 --max-time 10m -o runs/hull",
        main_options=("problem", "size", "rule", "encoder", "decoder", "objective"),
        guide="point.md",
    ),
    TaskSpec(
        name="embed",
        summary="word vectors, which 'catena vectors' queries",
        config=".embed.config:EmbedConfig",
        options=".embed.config:EmbedOptions",
        families={"": ".embed.task:EmbedTask"},
        estimator=".embed.estimator:WordVectors",
        example="text.txt --model skipgram --d 100 -o runs/vectors",
        main_options=("model", "loss", "d", "window", "min_count", "longest", "epochs", "subsample"),
        guide="vectors.md",
    ),
    TaskSpec(
        name="translate",
        summary="sentences into sentences: translation, summaries, other styles",
        config=".translate.config:TranslateConfig",
        options=".translate.config:TranslateOptions",
        families={"": ".translate.task:TranslateTask"},
        formats=("tmx",),
        estimator=".translate.estimator:Translator",
        example="--source train.en --target train.de --max-time 10m -o runs/en-de",
        main_options=("model", "tokenizer", "joint", "source", "target", "swap", "metrics"),
        implied_by=("source", "target", "source-column", "target-column"),
        guide="translate.md",
    ),
    TaskSpec(
        name="transduce",
        summary="words into pronunciations, spellings, transliterations or inflected forms",
        config=".transduce.config:TransduceConfig",
        options=".transduce.config:TransduceOptions",
        families={
            "edit": ".transduce.network:EditTransduceTask",
            "seq2seq": ".transduce.network:SequenceTransduceTask",
            "": ".transduce.task:CountedTransduceTask",
        },
        formats=("dictionary",),
        estimator=".transduce.estimator:Transducer",
        example="cmudict.dict --strip 012 -o runs/pronunciation",
        main_options=("model", "source_tokens", "target_tokens", "lowercase", "strip", "swap"),
        guide="transduce.md",
    ),
    TaskSpec(
        name="converse",
        summary="a response to the turns of a conversation: retrieved from your data, or generated",
        config=".converse.config:ConverseConfig",
        options=".converse.config:GenerativeOptions",
        families={
            "tfidf": ".converse.task:TermTask",
            "bm25": ".converse.task:TermTask",
            "mixture": ".converse.task:MixtureTask",
            "dual": ".converse.dual:DualTask",
            "": ".converse.generative:GenerativeTask",
        },
        formats=("dialogue",),
        estimator=".converse.estimator:Responder",
        example="chats.jsonl --model dual --max-time 5m -o runs/chat",
        main_options=("model", "against", "encoder", "window", "clusters"),
        implied_by=("context-column", "response-column"),
        guide="converse.md",
    ),
    TaskSpec(
        name="play",
        summary="actions in an environment: games, control problems, your own Gymnasium environment",
        config="catena.agents.config:PlayConfig",
        runner=".play.runs:AgentRunner",
        example="CartPole-v1 --steps 50000 -o runs/cartpole",
        main_options=("model", "network", "sizes", "discount", "double", "target"),
        guide="play.md",
    ),
    TaskSpec(
        name="read",
        summary="answers to questions about texts, as parts of the texts",
        config=".read.config:ReadConfig",
        options=".read.config:ReadOptions",
        families={"": ".read.task:ReadTask"},
        formats=("squad",),
        estimator=".read.estimator:Reader",
        example="squad.json --dev dev.json --vectors glove.txt --mode static -o runs/reader",
        main_options=("vectors", "mode", "no_answer", "max_answer", "window", "tokenizer"),
        guide="read.md",
    ),
    TaskSpec(
        name="compose",
        summary="a text from a title and a list of items: recipes, minutes, product texts",
        config=".compose.config:ComposeConfig",
        options=".compose.config:ComposeOptions",
        families={"": ".compose.task:ComposeTask"},
        estimator=".compose.estimator:Composer",
        example="recipes.jsonl --max-time 30m -o runs/recipes",
        main_options=("model", "item_words", "d", "search"),
        implied_by=("goal-column", "items-column"),
        guide="compose.md",
    ),
    TaskSpec(
        name="caption",
        summary="a sentence for each picture, with the part of the picture that each word attends to",
        config=".caption.config:CaptionConfig",
        options=".caption.config:CaptionOptions",
        families={"": ".caption.task:CaptionTask"},
        estimator=".caption.estimator:Captioner",
        example="captions.tsv --images pictures -o runs/captions",
        main_options=("model", "encoder", "images", "features", "d", "blind"),
        implied_by=("caption-column", "images"),
        guide="caption.md",
    ),
):
    TASKS.register(_spec.name)(_spec)
