"""The config of a tagger: hidden Markov models, taggers on sparse features, neural taggers. Imports no torch.

Tested in tests/tasks/tag/features/test_settings.py and tests/tasks/tag/test_chains.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from catena.config import Config
from catena.data.config import BatchConfig, TokenizerConfig, WordTokenizerConfig
from catena.encoders.config import EncoderConfig, Probability, RecurrentConfig
from catena.errors import ConfigError
from catena.tasks.config import FilesConfig, FoldsConfig, MachineConfig, TaskConfig
from catena.tasks.options import RankedOptions
from catena.tasks.tag.features.templates import parse_templates, template_columns
from catena.tasks.word_inputs.config import WordInputConfig
from catena.training.config import TrainingConfig


class HmmTaggerConfig(Config):
    """A hidden Markov model: p(tags, words) = Π p(tag | previous tag) p(word | tag). Trained in a second."""

    kind: Literal["hmm"] = "hmm"
    """The model."""
    learn: Literal["counts", "em"] = "counts"
    """counts: from the tags of train, then EM if some are not known. em: from the words only; the tags only name the
    states after training."""
    minimum_count: int = Field(2, ge=1)
    """Minimum number of occurrences of a word in train. Rarer and unseen words use the symbol of their word class."""
    classes: Literal["none", "shapes", "endings"] = "endings"
    """Classes of rare words: none, their shape (capitals, digits, hyphens), or shape and last letters."""
    smoothing: float = Field(0.1, ge=0)
    """Added to the count of each tag after each tag."""
    word_smoothing: float = Field(0.01, ge=0)
    """Added to the count of each word with each tag."""
    tolerance: float = Field(1e-5, ge=0)
    """EM stops if an iteration improves the log-likelihood by less than this fraction."""

    @property
    def columns(self) -> tuple[str, ...]:
        """No columns other than the words."""
        return ()


_HMM_TRAINING: dict[str, Any] = {"optimizer": "sgd", "max_epochs": 100, "patience": 0}
"""Default training options of a hidden Markov model; a step is an iteration of EM."""


# --- taggers on sparse features ---------------------------------------------------------------------------------------


_TEMPLATES = (
    "bias",
    "w[-2..2]",
    "w[-1]|w[0]",
    "w[0]|w[1]",
    "lower[0]",
    "shape[-1..1]",
    "prefix1[0]",
    "prefix2[0]",
    "prefix3[0]",
    "suffix1[0]",
    "suffix2[0]",
    "suffix3[0]",
    "suffix4[0]",
)
"""Default templates, for parts of speech and named entities."""


class FeatureTaggerConfig(Config):
    """A log-linear model on sparse features of words, as in CRFsuite and CRF++: fast and interpretable."""

    kind: Literal["features"] = "features"
    """The model."""
    structure: Literal["crf", "softmax", "memm", "perceptron", "margin"] = "crf"
    """How the tags of a sentence depend on each other: crf, softmax (independent), memm (on the previous tag),
    perceptron or margin."""
    templates: tuple[str, ...] = Field(_TEMPLATES, min_length=1)
    """Feature templates: w[0], w[-1]|w[0], lower[0], shape[-1..1], prefix3[0], suffix3[0], column1[0] (column 1 of the
    file), upos[0] (a column of CoNLL-U), bias; tag[-1]|w[0] has a weight for each pair of tags. Templates of CRF++
    (U05:%x[-1,0]) work too."""
    minimum_count: int = Field(1, ge=1)
    """Minimum number of occurrences of a feature in train."""
    all_tags: bool = False
    """Give every feature a weight for every tag, not only for tags it occurs with; may be more accurate, but slower."""
    transitions: Literal["seen", "all"] = "all"
    """Pairs of adjacent tags that have a weight: those that occur in train, or all."""
    edges: bool = True
    """Learn weights for the first and last tag of a sentence."""

    l1: float = Field(0.0, ge=0)
    """Weight of the L1 penalty, relative to the sum of the losses of all sentences (c1 of CRFsuite). Makes most weights
    zero."""
    l2: float = Field(0.1, ge=0)
    """Weight of the L2 penalty (c2 of CRFsuite)."""
    optimizer: Literal["auto", "lbfgs", "sgd"] = "auto"
    """lbfgs uses all sentences in each step (OWL-QN with l1), sgd one sentence. auto is lbfgs for crf, softmax and
    memm."""
    memory: int = Field(6, ge=1)
    """Number of past steps that lbfgs stores."""
    tolerance: float = Field(1e-5, ge=0)
    """lbfgs stops if ten steps reduce the objective by less than this fraction."""
    rate: float = Field(0.1, gt=0)
    """Initial learning rate of sgd; always 1 for a perceptron."""
    cost: float = Field(1.0, gt=0)
    """With structure margin: the required margin for each wrong tag."""

    @field_validator("templates")
    @classmethod
    def _can_be_read(cls, templates: tuple[str, ...]) -> tuple[str, ...]:
        try:
            parse_templates(templates)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return templates

    @model_validator(mode="after")
    def _fits_together(self) -> FeatureTaggerConfig:
        problems = list(self._problems())
        if problems:
            raise ValueError(" ".join(problems))
        return self

    def _problems(self) -> Iterator[str]:
        if self.structure in ("perceptron", "margin") and self.optimizer == "lbfgs":
            yield (
                f"structure = {self.structure!r} has a loss that is not differentiable, which optimizer = 'lbfgs' "
                f"cannot minimize. Use 'sgd' or 'auto'."
            )
        pairs = [str(template) for template in parse_templates(self.templates) if template.pairs and template.atoms]
        if pairs and (self.structure != "crf" or self.learns_by == "sgd"):
            yield (
                f"templates has {pairs[0]!r}, but features of tag pairs need structure = 'crf' and optimizer = "
                f"'lbfgs'. Remove it, or use these."
            )
        if self.l1 > 0 and self.learns_by == "sgd":
            yield f"l1 = {self.l1} needs optimizer = 'lbfgs' and structure crf, softmax or memm. Use them or remove it."

    @property
    def learns_by(self) -> str:
        """The optimizer, with auto resolved."""
        if self.optimizer != "auto":
            return self.optimizer
        return "sgd" if self.structure in ("perceptron", "margin") else "lbfgs"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the file, other than the words, that the templates read, by name or number."""
        return template_columns(parse_templates(self.templates))


_BATCH_TRAINING: dict[str, Any] = {"optimizer": "sgd", "max_epochs": 300, "eval_every": 10, "patience": 0}
"""Default training options of a tagger on features with lbfgs; a step is an iteration."""
_ONLINE_TRAINING: dict[str, Any] = {"optimizer": "sgd", "max_epochs": 20, "eval_every": 1, "patience": 5}
"""Default training options with sgd; a step is a pass over all sentences."""


def _training_problems(l1: float, weight_decay: float) -> Iterator[str]:
    """Errors for the penalties of the section training, which this model has in its own section."""
    for name, value, key in (("l1", l1, "l1"), ("weight_decay", weight_decay, "l2")):
        if value:
            yield f"training.{name} = {value} is only for networks. Use model.{key} for a tagger on features."


def _training_defaults(model: Any) -> dict[str, Any]:
    """The default training options for a model section that is not validated yet."""
    values = model if isinstance(model, Mapping) else getattr(model, "__dict__", {})
    one_by_one = values.get("structure") in ("perceptron", "margin") or values.get("optimizer") == "sgd"
    return _ONLINE_TRAINING if one_by_one else _BATCH_TRAINING


# --- taggers of any kind ----------------------------------------------------------------------------------------------


StructureName = Literal["crf", "softmax", "memm", "perceptron", "margin", "semimarkov"]
"""How the tags of a sentence depend on each other, and the training objective:

* crf: all tags together, p(y | x) by exact sums over all tag sequences (Lafferty et al. 2001);
* softmax: each tag independently;
* memm: each tag given the previous one, normalized at each word (McCallum et al. 2000);
* perceptron: the best sequence must be the gold one (Collins 2002);
* margin: the gold sequence must win by a margin that grows with the number of wrong tags (Taskar et al. 2003);
* semimarkov: whole segments instead of tags (Sarawagi & Cohen 2004).
"""


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
    lemma_bonus: float = Field(4.0, ge=0)
    """Added to the scores of edits that turn a word that is not in train into a lemma of train."""
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
        "hmm": _HMM_TRAINING,
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

    @property
    def predicts_lemmas(self) -> bool:
        """Whether the tags of the files are lemmas."""
        return self.tags.lemmas or (self.data.tags_column == "lemma" and not self.data.segment)

    @property
    def data_kind(self) -> str:
        """What the data implies about the model."""
        return "lemmas" if self.predicts_lemmas else "tags"

    @classmethod
    def suggested(cls, model: Any) -> Mapping[str, Mapping[str, Any]]:
        return {**cls.SUGGESTED, "features": _training_defaults(model)}

    def known_metrics(self) -> tuple[str, ...]:
        return METRICS

    def problems(self) -> Iterator[str]:
        tags = self.tags
        if isinstance(self.model, FeatureTaggerConfig):
            yield from _training_problems(self.training.l1, self.training.weight_decay)
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
