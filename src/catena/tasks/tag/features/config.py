"""The config of a tagger on sparse features. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from catena.config import Config
from catena.errors import ConfigError
from catena.tasks.tag.features.templates import parse_templates, template_columns

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


SUGGESTED: dict[str, Any] = {"optimizer": "sgd", "max_epochs": 300, "eval_every": 10, "patience": 0}
"""Default training options with lbfgs; a step is an iteration."""
_SUGGESTED_ONLINE: dict[str, Any] = {"optimizer": "sgd", "max_epochs": 20, "eval_every": 1, "patience": 5}
"""Default training options with sgd; a step is a pass over all sentences."""


def training_problems(l1: float, weight_decay: float) -> Iterator[str]:
    """Errors for the penalties of the section training, which this model has in its own section."""
    for name, value, key in (("l1", l1, "l1"), ("weight_decay", weight_decay, "l2")):
        if value:
            yield f"training.{name} = {value} is only for networks. Use model.{key} for a tagger on features."


def training_defaults(model: Any) -> dict[str, Any]:
    """The default training options for a model section that is not validated yet."""
    values = model if isinstance(model, Mapping) else getattr(model, "__dict__", {})
    one_by_one = values.get("structure") in ("perceptron", "margin") or values.get("optimizer") == "sgd"
    return _SUGGESTED_ONLINE if one_by_one else SUGGESTED
