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
"""What is seen of a word where nothing else is said: fit for parts of speech and names."""


class FeatureTaggerConfig(Config):
    """A log-linear model on sparse features of words, as CRFsuite and CRF++ have it: quick, and open to inspection."""

    kind: Literal["features"] = "features"
    """The model."""
    structure: Literal["crf", "softmax", "memm", "perceptron", "margin"] = "crf"
    """How the tags of a sentence are tied to one another: crf, softmax (not at all), memm (word by word), perceptron or
    margin."""
    templates: tuple[str, ...] = Field(_TEMPLATES, min_length=1)
    """What is seen of a word, a template each: w[0], w[-1]|w[0], lower[0], shape[-1..1], prefix3[0], suffix3[0],
    column1[0] (column 1 of the file), upos[0] (a column of CoNLL-U), bias; tag[-1]|w[0] for a weight with each pair of
    tags. Those of CRF++ (U05:%x[-1,0]) are taken too."""
    minimum_count: int = Field(1, ge=1)
    """Features that train holds less often are left out."""
    all_tags: bool = False
    """Give every feature a weight for every tag, not only for those it is seen with; may be better, and is slower."""
    transitions: Literal["seen", "all"] = "all"
    """Pairs of neighboring tags that have a weight: those that train holds, or all."""
    edges: bool = True
    """Give first and last tags a weight."""

    l1: float = Field(0.0, ge=0)
    """Weight of the sum of the absolute weights, beside the sum of the losses of all sentences (c1 of CRFsuite). Makes
    most weights zero."""
    l2: float = Field(0.1, ge=0)
    """Weight of the sum of the squared weights (c2 of CRFsuite)."""
    optimizer: Literal["auto", "lbfgs", "sgd"] = "auto"
    """All sentences at each step (lbfgs; OWL-QN with l1), or one at a time (sgd). auto is lbfgs for crf, softmax and
    memm."""
    memory: int = Field(6, ge=1)
    """Steps that lbfgs keeps."""
    tolerance: float = Field(1e-5, ge=0)
    """lbfgs stops when ten steps made the objective smaller by less than this share."""
    rate: float = Field(0.1, gt=0)
    """Size of the first steps of sgd; a perceptron has always 1."""
    cost: float = Field(1.0, gt=0)
    """With structure margin: by how much the right tags must win for each tag that differs."""

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
            raise ValueError("; ".join(problems))
        return self

    def _problems(self) -> Iterator[str]:
        if self.structure in ("perceptron", "margin") and self.optimizer == "lbfgs":
            yield (
                f"structure = {self.structure!r} has a loss with corners, which optimizer = 'lbfgs' cannot go round: "
                f"take 'sgd' or 'auto'"
            )
        pairs = [str(template) for template in parse_templates(self.templates) if template.pairs and template.atoms]
        if pairs and (self.structure != "crf" or self.learns_by == "sgd"):
            yield (
                f"templates has {pairs[0]!r}, and features of pairs of tags are learned by structure = 'crf' with "
                f"optimizer = 'lbfgs' alone: leave it out, or take these"
            )
        if self.l1 > 0 and self.learns_by == "sgd":
            yield f"l1 = {self.l1} needs optimizer = 'lbfgs', and a structure that it can train: crf, softmax or memm"

    @property
    def learns_by(self) -> str:
        """The optimizer that auto stands for."""
        if self.optimizer != "auto":
            return self.optimizer
        return "sgd" if self.structure in ("perceptron", "margin") else "lbfgs"

    @property
    def columns(self) -> tuple[str, ...]:
        """The further columns of the file that the templates read, by name or number."""
        return template_columns(parse_templates(self.templates))


SUGGESTED: dict[str, Any] = {"optimizer": "sgd", "max_epochs": 300, "eval_every": 10, "patience": 0}
"""How it likes to be trained by lbfgs; a step is an iteration."""
_SUGGESTED_ONLINE: dict[str, Any] = {"optimizer": "sgd", "max_epochs": 20, "eval_every": 1, "patience": 5}
"""The same for sgd; a step is a pass over all sentences."""


def training_problems(l1: float, weight_decay: float) -> Iterator[str]:
    """What the section training says of penalties, which are the model's own here."""
    for name, value, key in (("l1", l1, "l1"), ("weight_decay", weight_decay, "l2")):
        if value:
            yield f"training.{name} = {value} is for networks: a tagger on features has model.{key} for it"


def training_defaults(model: Any) -> dict[str, Any]:
    """How a model of these values, before they are checked, likes to be trained."""
    values = model if isinstance(model, Mapping) else getattr(model, "__dict__", {})
    one_by_one = values.get("structure") in ("perceptron", "margin") or values.get("optimizer") == "sgd"
    return _SUGGESTED_ONLINE if one_by_one else SUGGESTED
