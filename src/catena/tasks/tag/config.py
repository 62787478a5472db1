"""The config of a tagger. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.data.config import BatchConfig, TokenizerConfig, WordTokenizerConfig
from catena.encoders.config import EncoderConfig, Probability, RecurrentConfig
from catena.registry import did_you_mean
from catena.tasks.config import DataConfig, MachineConfig, with_suggestions
from catena.tasks.tag.features import config as feature_settings
from catena.tasks.tag.features.config import FeatureTaggerConfig
from catena.tasks.tag.hmm import config as hmm_settings
from catena.tasks.tag.hmm.config import HmmTaggerConfig
from catena.tasks.tag.kinds import StructureName
from catena.tasks.words.config import WordInputConfig
from catena.training.config import TrainingConfig


class TagDataConfig(DataConfig):
    """The files, how they are read, and which part of them is held out."""

    text_column: str | None = None
    """Column of the words: a number from 0 in a column file (0 if not set); in CoNLL-U it is form."""
    label_column: str | None = None
    """Column of the tags: a number from 0 in a column file (the last if not set), a name in CoNLL-U: upos (if not set),
    xpos, feats, lemma, deprel."""
    max_length: int = Field(1000, gt=0)
    """Longest sentence that is trained on, in words. Longer ones are left out and listed in dropped.tsv (see too_long);
    what is predicted is never cut."""
    segment: bool = False
    """Cut text into words (分词): the files are plain text with blanks between the words, and its characters are
    tagged."""
    tag_separator: str | None = None
    """With segment: what parts a word from its tag, such as the / of 希望/n; the tags of words are then learned too."""

    @model_validator(mode="after")
    def _separator_fits(self) -> TagDataConfig:
        if self.tag_separator is not None and not self.segment:
            raise ValueError(
                f"data.tag_separator = {self.tag_separator!r} is for text that is cut into words: set data.segment = "
                f"true, or leave it out"
            )
        return self


class TagSchemeConfig(Config):
    """What the tags mean."""

    scheme: Literal["auto", "iob1", "iob2", "bilou", "plain"] = "auto"
    """How tags mark spans in the files: B-x and I-x (iob1, iob2), also with L-x and U-x or E-x and S-x (bilou), or not
    at all (plain); auto looks at train."""
    training_scheme: Literal["auto", "iob2", "bilou"] = "auto"
    """The tags that the model gives itself, turned back into those of the files: auto takes theirs (iob2 for iob1);
    bilou tells the end of a span from its inside."""
    repair: bool = False
    """Take a span that its scheme does not allow, such as I-x after O, as conlleval takes it, instead of refusing the
    file."""
    unknown: str | None = None
    """A tag that stands where the tag is not known, such as ? or _: training then sums over all that may stand
    there."""
    lemmas: bool = False
    """The tags are dictionary forms (lemmas): what is learned is how a word is changed into it. Always so for the
    column
    lemma of CoNLL-U."""
    constrain: bool = True
    """Give only sequences of tags that the scheme allows, with exact probabilities among those."""


class NeuralTaggerConfig(Config):
    """Vectors of words and characters, an encoder, and a structure over the tags."""

    kind: Literal["neural"] = "neural"
    """The model."""
    structure: StructureName = "crf"
    """How the tags of a sentence are tied to one another: crf, softmax (not at all), memm (word by word), perceptron,
    margin, or semimarkov (whole segments)."""
    words: WordInputConfig = WordInputConfig()
    """What is seen of a word."""
    encoder: EncoderConfig = RecurrentConfig(d=200)
    """What reads the words in a row."""
    dropout: Probability = 0.33
    """Probability of dropping a unit of the encoder's vectors, before the tags are scored."""
    locked: bool = False
    """Drop the same units at every word of a sentence (variational dropout)."""
    cost: float = Field(1.0, gt=0)
    """With structure margin: by how much the right tags must win for each tag that differs."""
    max_segment: int = Field(8, gt=0)
    """With structure semimarkov: the longest segment, in words; sentences of train with longer ones are left out."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are read beside the words."""
        return self.words.columns


_TaggerConfig = Annotated[NeuralTaggerConfig | FeatureTaggerConfig | HmmTaggerConfig, Field(discriminator="kind")]
"""The models, told apart by their kind."""


class TagEvaluationConfig(Config):
    """How the model is judged."""

    tokens_at_once: int = Field(8192, gt=0)
    """Words that are scored together, padding included."""


METRICS = ("f1", "precision", "recall", "accuracy", "sentence_accuracy")
"""The scores of a tagger; those of spans are given where tags mark spans."""

SUGGESTED: dict[str, dict[str, Any]] = {
    "neural": {"optimizer": "adam", "learning_rate": 0.003, "max_epochs": 30, "patience": 6},
    "hmm": hmm_settings.SUGGESTED,
}
"""How each model likes to be trained, where the config does not say."""


class TagConfig(Config):
    """A tag for each word of a sentence."""

    task: Literal["tag"] = "tag"
    """The task this config is for."""
    seed: int = Field(0, ge=0)
    """The seed of everything that is drawn at random."""
    pretrained: str | None = None
    """A run of task lm to start from, of words (tokenizer whitespace or words): its vectors of words and its encoder's
    states are seen beside the characters."""
    unfreeze: int = Field(1, ge=0)
    """With pretrained: epochs after which one more layer of it, from the top, is trained. 0 trains everything from the
    start."""
    machine: MachineConfig = MachineConfig()
    data: TagDataConfig = TagDataConfig()
    tokenizer: TokenizerConfig = WordTokenizerConfig()
    """How raw text is cut into words in prediction; files with a word in each line are never cut."""
    tags: TagSchemeConfig = TagSchemeConfig()
    model: _TaggerConfig = NeuralTaggerConfig()
    batches: BatchConfig = BatchConfig(batch_size=16)
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    evaluation: TagEvaluationConfig = TagEvaluationConfig()

    @model_validator(mode="before")
    @classmethod
    def _suggest(cls, data: Any) -> Any:
        """Train each model as it likes to be trained, unless the config says how."""
        model = data.get("model") if isinstance(data, dict) else None
        return with_suggestions(data, {**SUGGESTED, "features": feature_settings.training_defaults(model)}, "neural")

    @model_validator(mode="after")
    def _fits_together(self) -> TagConfig:
        problems = [*self._problems()]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _problems(self) -> Iterator[str]:
        metric, tags = self.training.metric, self.tags
        if metric not in (None, *METRICS):
            yield f"training.metric = {metric!r} is no score of a tagger: {did_you_mean(str(metric), METRICS)}"
        if isinstance(self.model, FeatureTaggerConfig):
            yield from feature_settings.training_problems(self.training.l1, self.training.weight_decay)
        if tags.lemmas and tags.scheme not in ("auto", "plain"):
            yield f"tags.lemmas = true learns dictionary forms, which have no scheme {tags.scheme!r}: leave one out"
        if self.tokenizer.kind not in ("whitespace", "words", "characters"):
            yield (
                f"tokenizer.kind = {self.tokenizer.kind!r} cuts words into pieces, and words are tagged: choose "
                f"whitespace, words or characters"
            )
        if self.data.segment and tags.lemmas:
            yield "data.segment = true cuts text into words, and tags.lemmas = true changes words: leave one out"
        if tags.unknown is not None and tags.repair:
            yield (
                f"tags.repair mends whole sentences, and tags.unknown = {tags.unknown!r} leaves holes in them: leave "
                f"one out"
            )
