"""Settings of recurrent encoder-decoders. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.encoders.config import CellName, Probability, ScoreName
from catena.outputs.config import OutputConfig, SoftmaxConfig


class ScheduledSamplingConfig(Config):
    """Scheduled sampling: how often training reads what the model writes in place of what is true."""

    schedule: Literal["none", "linear", "exponential", "inverse_sigmoid"] = "none"
    """How the probability of reading the true token falls with the steps of the training: max(least, k - c · step);
    k ^ step; or k / (k + exp(step / k))."""
    k: float = Field(1.0, gt=0)
    """Where a linear schedule begins; below 1 for an exponential one, such as 0.9999; for the inverse sigmoid the
    larger the slower, such as 2000."""
    c: float = Field(0.0, ge=0)
    """How much a linear schedule falls with each step."""
    least: float = Field(0.0, ge=0, le=1)
    """The probability never falls below this."""
    way: Literal["steps", "passes"] = "steps"
    """steps draws each token from what was read so far, which takes a step of the decoder at a time; passes reads the
    true target first, draws all tokens from that, and reads the mixture, which is faster."""

    @model_validator(mode="after")
    def _fits(self) -> ScheduledSamplingConfig:
        if self.schedule == "linear" and self.k > 1:
            raise ValueError(f"k = {self.k} is where a linear schedule begins, a probability: choose one up to 1")
        if self.schedule == "exponential" and self.k >= 1:
            raise ValueError(f"k = {self.k} never falls in an exponential schedule: choose one below 1, such as 0.9999")
        if self.schedule == "inverse_sigmoid" and self.k < 1:
            raise ValueError(f"k = {self.k} is too small for an inverse sigmoid: choose 1 or more, such as 2000")
        return self


_AttentionKind = Literal[
    "soft", "hard_straight_through", "hard_sampled", "marginal", "local_monotonic", "local_predictive"
]


_EXACT = ("softmax", "adaptive", "hierarchical")
"""Kinds of output layers whose loss is -log p."""


class RecurrentSeq2SeqConfig(Config):
    """A recurrent encoder-decoder, with attention or without."""

    kind: Literal["recurrent"] = "recurrent"
    """A recurrent encoder-decoder."""
    encoder: Literal["recurrent", "additive"] = "recurrent"
    """What reads the source: the recurrence; or additive, h + tanh(W x), which only sums up what it reads, from the
    left."""
    cell: CellName = "lstm"
    """The recurrence of both sides. lstm, gru and elman run on torch's fused forms."""
    d: int = Field(256, gt=0)
    """Units of each layer; in the encoder's bidirectional layers half of them read from each end."""
    d_embedding: int = Field(256, gt=0)
    """Features of a token's vector."""
    n_layers: int = Field(1, gt=0)
    """Layers of the encoder, and of the decoder."""
    bidirectional: Literal["all", "first", "none"] = "all"
    """Layers of the encoder that read the source from both ends."""
    reverse: bool = False
    """Read the source from its end to its beginning, so that the first words of both sides are near (Sutskever et al.
    2014)."""
    residual: bool = False
    """Layers from the third on add their input to their output, which lets deep stacks train (GNMT)."""
    handover: Literal["copy", "map", "mean", "zero"] = "copy"
    """What the decoder starts from: the encoder's last states layer by layer, as they are (copy) or mapped (map); the
    mean of its states, mapped; or zero."""
    attention: Literal["none"] | ScoreName = "additive"
    """How well a state of the decoder fits one of the encoder; none looks at nothing but the last state."""
    attention_kind: _AttentionKind = "soft"
    """soft spreads over the source. One position: the best one with the soft gradient (hard_straight_through), one
    drawn in training with a baseline (hard_sampled), or the exact sum over all (marginal). A window: around the
    target's own position (local_monotonic) or around one that is predicted (local_predictive)."""
    window: int = Field(10, gt=0)
    """Positions to the left and right that local attention sees."""
    n_heads: int = Field(1, gt=0)
    """Heads of the attention; several have maps of their own."""
    d_attention: int | None = Field(None, gt=0)
    """Units inside the additive and hadamard scores; if not set, as many as the queries have."""
    order: Literal["luong", "bahdanau", "gnmt"] = "luong"
    """luong steps and then looks; bahdanau looks with the state before the step, which reads what was found; gnmt does
    so with the lowest layer, and all layers read what was found."""
    input_feeding: bool = True
    """In Luong's order: what predicted the last token is read with the token. Without it training is faster."""
    output: OutputConfig = SoftmaxConfig()
    """How a vector becomes a distribution over the target vocabulary."""
    tied: bool = True
    """The output layer has the weights of the target's embedding."""
    shared: bool = False
    """Source and target have one embedding, which needs one vocabulary for both."""
    sampling: ScheduledSamplingConfig = ScheduledSamplingConfig()
    """Scheduled sampling."""
    dropout: Probability = 0.3
    """Probability of dropping a feature of an embedding, a unit between layers, or a unit before the output."""

    @model_validator(mode="before")
    @classmethod
    def _untie(cls, data: Any) -> Any:
        """Tie no weights where that cannot be, unless the config asks for it, which is refused below."""
        if not isinstance(data, dict) or "tied" in data:
            return data
        output = data.get("output")
        values = output if isinstance(output, dict) else getattr(output, "__dict__", {})
        decisions = values.get("kind") == "hierarchical" and values.get("tree") != "classes"
        return {**data, "tied": False} if decisions else data

    @model_validator(mode="after")
    def _fits(self) -> RecurrentSeq2SeqConfig:
        problems = [*self._sizes_that_do_not_fit(), *self._looks_that_do_not_fit()]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _sizes_that_do_not_fit(self) -> Iterator[str]:
        if self.bidirectional != "none" and self.d % 2:
            yield (
                f"d = {self.d} is odd, and bidirectional = {self.bidirectional!r} shares the units between two "
                f"directions: choose d = {self.d + 1}, or bidirectional = 'none'"
            )
        if self.d % self.n_heads:
            yield (f"d = {self.d} cannot be shared by n_heads = {self.n_heads}: choose a d that n_heads divides")
        if self.residual and self.n_layers < 3:
            yield (
                f"residual = true is for layers from the third on, and n_layers is {self.n_layers}: set n_layers to 3 "
                "or more, or residual = false"
            )
        tree = self.output.tree if self.output.kind == "hierarchical" else "classes"
        if self.tied and tree != "classes":
            yield (
                f"output.tree = {tree!r} has weights for each decision, not for each word, so that tied = true cannot "
                "tie them to the embedding: leave tied out, or choose output.tree = 'classes'"
            )

    def _looks_that_do_not_fit(self) -> Iterator[str]:
        if self.attention == "none" and self.attention_kind != "soft":
            yield (
                f"attention_kind = {self.attention_kind!r} needs an attention, and attention is 'none': choose a "
                "score, such as attention = 'additive'"
            )
        if self.attention_kind == "marginal" and (self.order != "luong" or self.input_feeding or self.n_heads > 1):
            yield (
                "attention_kind = 'marginal' sums over where each step looks, so that no step may depend on where the "
                f"last one did, and looks with one head, but order = {self.order!r}, input_feeding = "
                f"{str(self.input_feeding).lower()} and n_heads = {self.n_heads}: set order = 'luong', input_feeding = "
                "false and n_heads = 1"
            )
        smoothing = self.output.smoothing if self.output.kind == "softmax" else 0.0
        if self.attention_kind in ("marginal", "hard_sampled") and (smoothing or self.output.kind not in _EXACT):
            yield (
                f"attention_kind = {self.attention_kind!r} trains by the log-probability of every token, and "
                f"output.kind = {self.output.kind!r} with smoothing = {smoothing:g} by another loss: set output.kind = "
                f"{' or '.join(map(repr, _EXACT))}, and output.smoothing = 0"
            )
