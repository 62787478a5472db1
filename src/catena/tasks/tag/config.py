"""The config of a tagger. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.data.config import BatchConfig, TokenizerConfig, WordTokenizerConfig
from catena.encoders.config import EncoderConfig, Probability, RecurrentConfig
from catena.tasks.config import FilesConfig, FoldsConfig, MachineConfig, TaskConfig
from catena.tasks.options import RankedOptions
from catena.tasks.tag.features import config as feature_settings
from catena.tasks.tag.features.config import FeatureTaggerConfig
from catena.tasks.tag.hmm import config as hmm_settings
from catena.tasks.tag.hmm.config import HmmTaggerConfig
from catena.tasks.word_inputs.config import WordInputConfig
from catena.training.config import TrainingConfig

StructureName = Literal["crf", "softmax", "memm", "perceptron", "margin", "semimarkov"]
"""How the tags of a sentence depend on each other, and the training objective:

* crf: all tags together, p(y | x) by exact sums over all tag sequences (Lafferty et al. 2001);
* softmax: each tag independently;
* memm: each tag given the previous one, normalized at each word (McCallum et al. 2000);
* perceptron: the best sequence must be the gold one (Collins 2002);
* margin: the gold sequence must win by a margin that grows with the number of wrong tags (Taskar et al. 2003);
* semimarkov: whole segments instead of tags (Sarawagi & Cohen 2004).
"""

_CHAINS = ("crf", "softmax", "memm", "perceptron", "margin")
"""Structures over tag sequences."""


class TagDataConfig(FilesConfig, FoldsConfig):
    """The data files, how they are read, and how they are split."""

    text_column: str | None = None
    """Column of the words: a number from 0 in a column file (default 0); form in CoNLL-U."""
    tags_column: str | None = None
    """Column of the tags: a number from 0 in a column file (default: the last), a name in CoNLL-U: upos (default),
    xpos, feats, lemma, deprel."""
    max_length: int = Field(1000, gt=0)
    """Maximum length of a training sentence in words. Longer ones are dropped and listed in dropped.tsv (see too_long);
    prediction has no limit."""
    too_long: Literal["drop", "cut"] = "drop"
    """Drop or cut training sentences that are longer than max_length."""
    segment: bool = False
    """Word segmentation (分词): the files are plain text with blanks between the words; the model tags characters."""
    tag_separator: str | None = None
    """With segment: the separator of a word and its tag, such as / in 希望/n; the model then learns word tags too."""

    @model_validator(mode="after")
    def _separator_fits(self) -> TagDataConfig:
        if self.tag_separator is not None and not self.segment:
            raise ValueError(
                f"data.tag_separator = {self.tag_separator!r} needs word segmentation. Set data.segment = true, or "
                f"remove it."
            )
        return self


class TagSchemeConfig(Config):
    """How tags encode spans."""

    scheme: Literal["auto", "iob1", "iob2", "bilou", "plain"] = "auto"
    """How tags encode spans in the files: B-x and I-x (iob1, iob2), also L-x and U-x or E-x and S-x (bilou), or not at
    all (plain); auto detects it from train."""
    training_scheme: Literal["auto", "iob2", "bilou"] = "auto"
    """The scheme of the model, converted back in predictions: auto uses that of the files (iob2 for iob1); bilou marks
    the end of a span."""
    repair: bool = False
    """Read invalid spans, such as I-x after O, as conlleval does, instead of raising an error."""
    unknown: str | None = None
    """A placeholder for unknown tags in the files, such as ? or _: training then sums over all possible tags."""
    lemmas: bool = False
    """Tags are lemmas: the model learns how to edit a word into its lemma. Always true for the column lemma of
    CoNLL-U."""
    constrain: bool = True
    """Predict only tag sequences that the scheme allows, with probabilities normalized over these."""


class NeuralTaggerConfig(Config):
    """A neural tagger: word and character vectors, an encoder, and a structure over the tags."""

    kind: Literal["neural"] = "neural"
    """The model."""
    structure: StructureName = "crf"
    """How the tags of a sentence depend on each other: crf, softmax (independent), memm (on the previous tag),
    perceptron, margin, or semimarkov (whole segments)."""
    words: WordInputConfig = WordInputConfig()
    """The input features of a word."""
    encoder: EncoderConfig = RecurrentConfig(d=200)
    """The encoder over the words of a sentence."""
    dropout: Probability = 0.33
    """Dropout probability of the encoder outputs."""
    locked: bool = False
    """Variational dropout: drop the same units at every word of a sentence."""
    cost: float = Field(1.0, gt=0)
    """With structure margin: the required margin for each wrong tag."""
    max_segment: int = Field(8, gt=0)
    """With structure semimarkov: maximum segment length in words; train sentences with longer ones are dropped."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are read in addition to the words."""
        return self.words.columns


_TaggerConfig = Annotated[NeuralTaggerConfig | FeatureTaggerConfig | HmmTaggerConfig, Field(discriminator="kind")]
"""The models, distinguished by their kind."""


class TagEvaluationConfig(Config):
    """How the model is evaluated."""

    tokens_at_once: int = Field(8192, gt=0)
    """Number of words that are scored together, including padding."""


class TagOptions(RankedOptions):
    """Options of prediction with a tagger."""

    constraint: Path | None = None
    """File in which some words have a given tag, in the format of the training files; the others have _ or ?."""


METRICS = ("f1", "precision", "recall", "accuracy", "sentence_accuracy")
"""The scores of a tagger; those of spans exist only if tags encode spans."""


class TagConfig(TaskConfig):
    """The config of tagging."""

    SUGGESTED: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "neural": {"optimizer": "adam", "learning_rate": 0.003, "max_epochs": 30, "patience": 6},
        "hmm": hmm_settings.SUGGESTED,
    }

    task: Literal["tag"] = "tag"
    pretrained: str | None = None
    """A run of task lm on words (tokenizer whitespace or words) to start from: the tagger reads its word vectors and
    its encoder's states in addition to the characters."""
    unfreeze: int = Field(1, ge=0)
    """With pretrained: unfreeze one more of its layers, from the top, every N epochs. 0 trains all layers from the
    start."""
    machine: MachineConfig = MachineConfig()
    data: TagDataConfig = TagDataConfig()
    tokenizer: TokenizerConfig = WordTokenizerConfig()
    """How raw text is split into words in prediction; files with one word per line are not split."""
    tags: TagSchemeConfig = TagSchemeConfig()
    model: _TaggerConfig = NeuralTaggerConfig()
    batches: BatchConfig = BatchConfig(batch_size=16)
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    evaluation: TagEvaluationConfig = TagEvaluationConfig()

    @classmethod
    def suggested(cls, model: Any) -> Mapping[str, Mapping[str, Any]]:
        return {**cls.SUGGESTED, "features": feature_settings.training_defaults(model)}

    def known_metrics(self) -> tuple[str, ...]:
        return METRICS

    def problems(self) -> Iterator[str]:
        tags = self.tags
        if isinstance(self.model, FeatureTaggerConfig):
            yield from feature_settings.training_problems(self.training.l1, self.training.weight_decay)
        if tags.lemmas and tags.scheme not in ("auto", "plain"):
            yield f"tags.lemmas = true cannot be combined with tags.scheme = {tags.scheme!r}. Remove one of them."
        if self.tokenizer.kind not in ("whitespace", "words", "characters"):
            yield (
                f"tokenizer.kind must keep words whole for tagging, got {self.tokenizer.kind!r}. Use whitespace, words "
                f"or characters."
            )
        if self.data.segment and tags.lemmas:
            yield "data.segment = true cannot be combined with tags.lemmas = true. Remove one of them."
        if tags.unknown is not None and tags.repair:
            yield (
                f"tags.repair needs complete tags, so it cannot be combined with tags.unknown = {tags.unknown!r}. "
                f"Remove one of them."
            )
