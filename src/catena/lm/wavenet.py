r"""WaveNet: a language model of sound, whose tokens are the levels of samples.

.. math::  p(x \mid h, y) = \prod_t p(x_t \mid x_{<t}, h, y)

by dilated causal convolutions (:mod:`catena.encoders.dilated`) over embedded mu-law levels, conditioned on a speaker h
and on a slower series y, such as a spectrogram, if there are any. van den Oord et al. 2016. The time before a recording
is silence, in training and in generation.

As a stepper it has the ids of a vocabulary: special tokens, whose log-probability is -inf, and then the levels. A
recording has no end. States hold a queue for each layer (:mod:`catena.kernels.wavenet`), so a step costs the same for
any receptive field; :meth:`WaveNet.generate_blocks` runs many steps in one call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor, nn

from catena.data.mulaw import decode_mulaw, level_positions, silence_level
from catena.data.special_tokens import END_SYMBOL
from catena.data.vocabulary import Vocabulary
from catena.encoders.dilated import Condition, Dilated
from catena.encoders.upsampling import Upsampling
from catena.errors import ConfigError, DataError, StepperError
from catena.kernels.wavenet.reference import Step
from catena.lm.base import SPECIALS, AutoregressiveLM
from catena.lm.wavenet_checks import check_parts, check_speakers
from catena.lm.wavenet_prediction import LinearPredictors
from catena.lm.wavenet_state import (
    CompiledSteps,
    WaveNetState,
    copy_step,
    join_features,
    join_states,
    series_ahead,
    step_from_tails,
    tails_from_step,
    uniforms_ahead,
)
from catena.numerics import NEG_INF
from catena.outputs.base import OutputLayer
from catena.search.stepper import checked_lengths
from catena.shapes import mask_from_lengths

BLOCK = 1 << 14
"""Samples that are read or scored in one pass of the convolutions."""


class WaveNet(nn.Module, AutoregressiveLM[WaveNetState]):
    """A language model of samples.

    Args:
        encoder: with ``final_relu``; ``d_in`` equal to ``d``; with ``d_global`` for speakers, ``d_local`` for a series.
        output: from ``encoder.d_out`` features to the levels.
        n_speakers: the number of speakers; 0 if the model is not conditioned on them.
        upsampling: from the rate of the series to the rate of the samples; None if there is no series.
        predictors: linear predictors, whose features are the last ones of ``encoder.d_local``, and of
            ``output.d_in``; None for none.
    """

    _compiled: CompiledSteps | None = None

    def __init__(
        self,
        encoder: Dilated,
        output: OutputLayer,
        *,
        n_speakers: int = 0,
        upsampling: Upsampling | None = None,
        predictors: LinearPredictors | None = None,
    ) -> None:
        super().__init__()
        check_parts(encoder, output, n_speakers, upsampling, predictors)
        self.encoder, self.output, self.upsampling, self.predictors = encoder, output, upsampling, predictors
        self.n_levels, self.n_speakers, self.field = output.v, n_speakers, encoder.field
        self.embedding = nn.Embedding(self.n_levels, encoder.d_in)
        self.speakers = nn.Embedding(n_speakers + 1, encoder.d_global) if n_speakers else None
        self._vocabulary = Vocabulary([str(i) for i in range(self.n_levels)], specials=SPECIALS)
        self.first = len(self._vocabulary.specials)
        self.v, self.end = len(self._vocabulary), self._vocabulary.special(END_SYMBOL)
        self.silence = silence_level(self.n_levels)
        self.init_()

    @torch.no_grad()
    def init_(self) -> None:
        """Scaled Xavier weights; two features of a level start as its companded and its linear value."""
        self.encoder.init_scaled_()
        nn.init.normal_(self.embedding.weight, std=0.1)
        companded = torch.from_numpy(level_positions(self.n_levels))
        values = torch.stack(
            (companded, torch.from_numpy(decode_mulaw(np.arange(self.n_levels), self.n_levels))), dim=1
        )
        columns = self.embedding.weight[:, :2]
        columns.copy_(values[:, : columns.shape[1]])
        if self.speakers is not None:
            self.speakers.weight[-1] = 0.0  # the unknown speaker

    @property
    def vocabulary(self) -> Vocabulary:
        return self._vocabulary

    @property
    def device(self) -> torch.device:
        return self.embedding.weight.device

    # --- conditions ---------------------------------------------------------------------------------------------------

    @property
    def n_context_frames(self) -> int:
        """The number of vectors of the series before the one of the first target that a window must have."""
        return 0 if self.upsampling is None else self.upsampling.margin - (1 - self.field) // self.upsampling.hop

    def condition(
        self,
        speakers: Int[Tensor, " b"] | None = None,
        frames: Float[Tensor, "b f k"] | None = None,
        predictions: Float[Tensor, "b s p 4"] | None = None,
    ) -> Condition:
        """The condition of windows, or of whole recordings.

        Args:
            speakers: indices from 0; -1 for an unknown speaker. None for all unknown.
            frames: the slower series; ``frames[:, n_context_frames]`` is the vector of the first target. With
                ``upsampling.margin`` vectors after the one of the last target, a window equals the whole recording.
            predictions: by the linear predictors, of the sample after each input.

        Returns:
            A condition whose series begins with the first input that the first target depends on.
        """
        constant = series = None
        if self.speakers is not None and speakers is not None:
            check_speakers(speakers, self.n_speakers)
            constant = self.speakers(torch.where(speakers < 0, self.n_speakers, speakers))
        if self.upsampling is not None and frames is not None:
            skipped = self.n_context_frames * self.upsampling.hop - (self.field - 1)
            series = self.upsampling(frames)[:, skipped:]
        if self.predictors is not None and predictions is not None:
            features = self.predictors.features(predictions).to(self.embedding.weight)
            series = join_features(None if series is None else series[:, : features.shape[1]], features)
        return Condition(constant, series)

    # --- training and scoring -----------------------------------------------------------------------------------------

    def hidden(self, inputs: Int[Tensor, "b s"], condition: Condition | None = None) -> Float[Tensor, "b t d"]:
        """The vectors after each of the last ``s - field + 1`` inputs, which have their full context in the inputs.

        With linear predictors, they end with the features of their predictions that the output reads.
        """
        biases = None
        if condition is not None:
            series = condition.series
            series = None if series is None else series[:, : inputs.shape[1]]
            biases = self.encoder.project(Condition(condition.constant, series))
        hidden = self.encoder.without_padding(self.embedding(inputs), biases)
        if self.predictors is None:
            return hidden
        series = None if condition is None else condition.series
        if series is None:
            raise DataError(
                "predictions must be given to a model with linear_prediction, got None. Pass them to condition()."
            )
        features = series[:, inputs.shape[1] - hidden.shape[1] : inputs.shape[1], -self.predictors.n_features :]
        return self._with_anchors(hidden, features)

    def _with_anchors(
        self, hidden: Float[Tensor, "*n d"], features: Float[Tensor, "*n f"] | None
    ) -> Float[Tensor, "*n d_in"]:
        """The input of the output layer."""
        if self.predictors is None or features is None:
            return hidden
        return torch.cat((hidden, features[..., : self.predictors.n_anchors]), dim=-1)

    def loss(
        self,
        inputs: Int[Tensor, "b s"],
        targets: Int[Tensor, "b t"],
        mask: Bool[Tensor, "b t"] | None = None,
        condition: Condition | None = None,
    ) -> Float[Tensor, ""]:
        """The mean of -log p, in nats, over the real targets of windows (:class:`catena.data.recordings.WindowBatch`).

        Args:
            inputs: levels, ``field - 1 + t`` for each row.
            targets: levels.
            mask: True at real targets; all if None.
            condition: see :meth:`condition`.
        """
        hidden = self.hidden(inputs, condition)
        if mask is None:
            return self.output.loss(hidden.flatten(0, 1), targets.flatten())
        return self.output.loss(hidden[mask], targets[mask])

    def token_log_probs(self, ids: Int[Tensor, "n t"], lengths: Int[Tensor, " n"]) -> Float[Tensor, "n t"]:
        return self.score(self.start(len(ids)), ids, lengths)

    @torch.no_grad()
    def score(self, state: WaveNetState, ids: Int[Tensor, "n t"], lengths: Int[Tensor, " n"]) -> Float[Tensor, "n t"]:
        """log p of each id, starting from a state; 0 from its length on."""
        checked_lengths(ids, lengths)
        levels, possible = self._levels(ids)
        found = []
        for block in _blocks(levels):
            hidden, after = self._read_block(state, block)
            hidden = torch.cat((self._last_hidden(state)[:, None], hidden[:, :-1]), dim=1)
            found.append(self.output.log_prob(hidden.flatten(0, 1), block.flatten()).view(block.shape))
            state = after
        scores = torch.cat(found, dim=1) if found else self.embedding.weight.new_zeros(ids.shape)
        scores = scores.masked_fill(~possible, NEG_INF)
        return scores.masked_fill(~mask_from_lengths(lengths, ids.shape[1]), 0.0)

    # --- step by step -------------------------------------------------------------------------------------------------

    def conditioned(
        self, speakers: Int[Tensor, " m"] | None = None, frames: Float[Tensor, "m f k"] | None = None
    ) -> ConditionedWaveNet:
        """The model of recordings of given speakers and series, as a stepper; see :meth:`begin`."""
        return ConditionedWaveNet(self, self.begin(speakers, frames))

    @torch.no_grad()
    def start(self, n: int) -> WaveNetState:
        rows = torch.zeros(n, dtype=torch.int64, device=self.device)
        return self.select(self.begin(rows[:1] - 1), rows)

    @torch.no_grad()
    def begin(
        self, speakers: Int[Tensor, " m"] | None = None, frames: Float[Tensor, "m f k"] | None = None
    ) -> WaveNetState:
        """The state before the first samples of recordings, whose past is silence.

        Args:
            speakers: indices from 0; -1 for an unknown speaker.
            frames: the slower series from the first sample on. After its end, the last vector is held.
        """
        if frames is not None:
            past = frames.new_zeros(len(frames), self.n_context_frames, frames.shape[2])
            frames = torch.cat((past, frames), dim=1)
        condition = self.condition(speakers, frames)
        n = next((len(x) for x in (speakers, frames) if x is not None), 1)
        silence = torch.full((n, self.field), self.silence, device=self.device)
        series = None if condition.series is None else condition.series[:, : self.field]
        predictors = None if self.predictors is None else self.predictors.start(n)
        features = self._features(predictors)
        if features is not None:
            series = join_features(series, features[:, None].expand(-1, self.field, -1))
        biases = self.encoder.project(Condition(condition.constant, series))
        x = self.embedding(silence)
        raw, tails = self.encoder.continue_(x, self.encoder.begin(n, x.device, x.dtype), biases)
        step = Step(torch.cat(tails, dim=1), torch.zeros(n, dtype=torch.int64, device=x.device), raw[:, -1].clone())
        bias = None
        if condition.constant is not None:
            parts = self.encoder.project(Condition(condition.constant)) or []
            bias = torch.stack([part[:, 0] for part in parts if part is not None], dim=1)
        sources = None if condition.series is None else torch.arange(n, device=x.device)
        return WaveNetState(step, condition.constant, bias, condition.series, sources, predictors)

    def _features(self, predictors: Float64[Tensor, "n s"] | None) -> Float[Tensor, "n f"] | None:
        """The features of the predictions of the next samples."""
        if self.predictors is None or predictors is None:
            return None
        return self.predictors.features(self.predictors.current(predictors)).to(self.embedding.weight)

    def _last_hidden(self, state: WaveNetState) -> Float[Tensor, "n d"]:
        """The input of the output layer for the next sample."""
        return self._with_anchors(state.step.hidden, self._features(state.predictors))

    @torch.no_grad()
    def log_probs(self, state: WaveNetState) -> Float[Tensor, "n v"]:
        levels = self.output.log_probs(self._last_hidden(state))
        return torch.cat((levels.new_full((len(levels), self.first), NEG_INF), levels), dim=1)

    @torch.no_grad()
    def advance(self, state: WaveNetState, ids: Int[Tensor, " n"]) -> WaveNetState:
        levels = self._levels(ids)[0][:, None]
        features, predictors = self._read_predictors(state, levels)
        own = replace(state, step=copy_step(state.step), predictors=predictors)
        steps = self._steps()
        steps.kernel.read_(own.step, levels, steps.biases(own, 1, features))
        return own

    def _read_predictors(
        self, state: WaveNetState, levels: Int[Tensor, "n t"]
    ) -> tuple[Float[Tensor, "n t f"] | None, Float64[Tensor, "n s"] | None]:
        """The features of the predictions after each level, and the state of the predictors after the last one."""
        if self.predictors is None or state.predictors is None:
            return None, None
        predictors = state.predictors.clone()
        predictions = self.predictors.read_(predictors, levels)
        return self.predictors.features(predictions).to(self.embedding.weight), predictors

    @torch.no_grad()
    def select(self, state: WaveNetState, rows: Int[Tensor, " m"]) -> WaveNetState:
        step = Step(*(x[rows] for x in state.step))
        constant, bias, sources = (None if x is None else x[rows] for x in (state.constant, state.bias, state.sources))
        predictors = None if state.predictors is None else state.predictors[rows.cpu()]
        return WaveNetState(step, constant, bias, state.series, sources, predictors)

    @torch.no_grad()
    def join(self, states: Sequence[WaveNetState]) -> WaveNetState:
        return join_states(states)

    @torch.no_grad()
    def extend(self, state: WaveNetState, ids: Int[Tensor, "n t"], lengths: Int[Tensor, " n"]) -> WaveNetState:
        counts = checked_lengths(ids, lengths)
        if len(set(counts)) > 1:
            return self._extend_rows(state, ids, lengths)
        levels = self._levels(ids[:, : counts[0] if counts else 0])[0]
        for block in _blocks(levels):
            state = self._read_block(state, block)[1]
        return state

    def _extend_rows(self, state: WaveNetState, ids: Tensor, lengths: Tensor) -> WaveNetState:
        """Rows of different lengths; those of one length are read in one call."""
        order = lengths.argsort(stable=True)
        parts = []
        for length in lengths.unique().tolist():
            rows = (lengths == length).nonzero()[:, 0]
            parts.append(self.extend(self.select(state, rows), ids[rows, :length], lengths[rows]))
        return self.select(self.join(parts), order.argsort())

    def _read_block(
        self, state: WaveNetState, levels: Int[Tensor, "n t"]
    ) -> tuple[Float[Tensor, "n t d"], WaveNetState]:
        """The vectors after each level by the convolutions, and the state after the last one."""
        t = levels.shape[1]
        features, predictors = self._read_predictors(state, levels)
        series = join_features(series_ahead(state, self.field, t), features)
        biases = self.encoder.project(Condition(state.constant, series))
        tails = tails_from_step(state.step, self._sizes)
        raw, tails = self.encoder.continue_(self.embedding(levels), tails, biases)
        step = step_from_tails(tails, state.step.time + t, raw[:, -1].clone(), self._sizes)
        return self._with_anchors(raw, features), replace(state, step=step, predictors=predictors)

    @property
    def _sizes(self) -> list[int]:
        """The number of slots of each layer's queue."""
        return [size for size, _ in self.encoder.tail_sizes]

    def _levels(self, ids: Int[Tensor, "*n"]) -> tuple[Int[Tensor, "*n"], Bool[Tensor, "*n"]]:
        """The levels of ids, silence for special tokens; and whether an id is a level."""
        possible = ids >= self.first
        return torch.where(possible, ids - self.first, self.silence), possible

    # --- generation ---------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def generate_blocks(
        self,
        state: WaveNetState,
        n_samples: int,
        *,
        seed: int = 0,
        temperature: float = 1.0,
        block: int = 4000,
    ) -> Iterator[Int[Tensor, "n k"]]:
        """Yields the levels of sampled continuations, ``block`` samples at a time.

        A sample depends on the seed, its row, its time and the samples before it, not on ``block``. The same ids as by
        steps with the same uniform numbers, and much faster; the given state is not changed.

        Args:
            state: of :meth:`start`, :meth:`begin` or :meth:`extend`.
            n_samples: the number of samples in each row.
            seed: of the uniform numbers.
            temperature: divisor of the logits; below 1 lowers noise; 0 takes the most probable level.
            block: samples in a block.
        """
        if temperature < 0:
            raise ConfigError(f"temperature must be at least 0, got {temperature}. Use 1 to sample from the model.")
        own = replace(state, step=copy_step(state.step))
        steps = self._steps()
        for first in range(0, n_samples, block):
            k = min(block, n_samples - first)
            uniforms = uniforms_ahead(own.step.time, seed, k)
            if steps.can_sample:
                yield steps.kernel.generate_(own.step, uniforms, temperature, steps.biases(own, k))
            else:
                levels, own = self._generate_slowly(own, uniforms, temperature)
                yield levels

    def generate(
        self, state: WaveNetState, n_samples: int, *, seed: int = 0, temperature: float = 1.0
    ) -> Int[Tensor, "n k"]:
        """All levels of :meth:`generate_blocks` in one tensor."""
        blocks = list(self.generate_blocks(state, n_samples, seed=seed, temperature=temperature))
        return torch.cat(blocks, dim=1) if blocks else state.step.time.new_zeros(len(state.step.time), 0)

    def _generate_slowly(
        self, state: WaveNetState, uniforms: Float[Tensor, "n k"], temperature: float
    ) -> tuple[Int[Tensor, "n k"], WaveNetState]:
        """For output layers that the kernels do not know."""
        found = []
        for u in uniforms.unbind(dim=1):
            log_probs = self.output.log_probs(self._last_hidden(state)).double()
            if temperature:
                edges = torch.softmax(log_probs / temperature, dim=-1).cumsum(dim=-1)
                level = (edges <= u[:, None] * edges[:, -1:]).sum(dim=-1).clamp(max=self.n_levels - 1)
            else:
                level = log_probs.argmax(dim=-1)
            found.append(level)
            state = self.advance(state, level + self.first)
        return torch.stack(found, dim=1), state

    def _steps(self) -> CompiledSteps:
        """The kernels for the present weights."""
        if self._compiled is None or not self._compiled.is_current():
            with torch.inference_mode(False), torch.no_grad():
                self._compiled = CompiledSteps(self.embedding, self.encoder, self.output)
        return self._compiled


class ConditionedWaveNet(AutoregressiveLM[WaveNetState]):
    """A WaveNet of given speakers or series: row ``i`` of :meth:`start` is of source ``i``.

    Args:
        model: the network.
        beginning: the state before the first samples of each source. A single source serves any number of rows.
    """

    def __init__(self, model: WaveNet, beginning: WaveNetState) -> None:
        self.model, self.beginning = model, beginning
        self.v, self.end = model.v, model.end

    @property
    def vocabulary(self) -> Vocabulary:
        return self.model.vocabulary

    @property
    def device(self) -> torch.device:
        return self.model.device

    def start(self, n: int) -> WaveNetState:
        sources = len(self.beginning.step.time)
        if sources not in (1, n):
            raise StepperError(f"n must be the number of sources, {sources}, got {n}. Pass one speaker for each row.")
        rows = torch.arange(n, device=self.device)
        return self.model.select(self.beginning, rows % sources)

    def log_probs(self, state: WaveNetState) -> Float[Tensor, "n v"]:
        return self.model.log_probs(state)

    def advance(self, state: WaveNetState, ids: Int[Tensor, " n"]) -> WaveNetState:
        return self.model.advance(state, ids)

    def select(self, state: WaveNetState, rows: Int[Tensor, " m"]) -> WaveNetState:
        return self.model.select(state, rows)

    def join(self, states: Sequence[WaveNetState]) -> WaveNetState:
        return self.model.join(states)

    def extend(self, state: WaveNetState, ids: Int[Tensor, "n t"], lengths: Int[Tensor, " n"]) -> WaveNetState:
        return self.model.extend(state, ids, lengths)

    def token_log_probs(self, ids: Int[Tensor, "n t"], lengths: Int[Tensor, " n"]) -> Float[Tensor, "n t"]:
        return self.model.score(self.start(len(ids)), ids, lengths)


def _blocks(levels: Int[Tensor, "n t"]) -> list[Int[Tensor, "n _"]]:
    return [block for block in levels.split(BLOCK, dim=1) if block.shape[1]]
