"""Steppers from functions: search any model without writing a class. Tested in tests/search/test_from_functions.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.errors import ConfigError
from catena.search.stepper import Stepper
from catena.search.table_stepper import TableStepper
from catena.shapes import cat_padded, match_shape


class _Prefixes(NamedTuple):
    ids: Int[Tensor, "n t"]
    """``begin``, then the ids so far; filled up with 0."""
    lengths: Int[Tensor, " n"]


class _LogitsStepper(Stepper[_Prefixes]):
    """Reads the whole prefix again at every step. The state is the prefix itself."""

    single_rows = True

    def __init__(self, fn: Callable[[Tensor], Tensor], v: int, begin: int, end: int, device: Any) -> None:
        self.fn = fn
        self.v = v
        self.begin = begin
        self.end = end
        self._device = torch.device(device)
        self._dtype = torch.get_default_dtype()  # of the logits, once the model has been called

    @property
    def device(self) -> torch.device:
        return self._device

    def start(self, n: int) -> _Prefixes:
        return _Prefixes(torch.full((n, 1), self.begin, device=self._device), torch.ones_like(torch.arange(n)))

    def log_probs(self, state: _Prefixes) -> Float[Tensor, "n v"]:
        if not len(state.lengths):
            return torch.zeros(0, self.v, dtype=self._dtype, device=self._device)
        lengths = state.lengths.unique().tolist()
        if len(lengths) == 1:
            return self._read(state.ids[:, : lengths[0]])
        # Only prefixes of the same length are read together: the model may attend to padding.
        rows = [(state.lengths == length).nonzero()[:, 0] for length in lengths]
        parts = [self._read(state.ids[row, :length]) for row, length in zip(rows, lengths, strict=True)]
        return torch.cat(parts)[torch.cat(rows).argsort()]

    def _read(self, ids: Int[Tensor, "n t"]) -> Float[Tensor, "n v"]:
        logits = self.fn(ids)
        match_shape("the logits of the model", tuple(logits.shape), "n t v", n=len(ids), t=ids.shape[1], v=self.v)
        self._dtype = logits.dtype
        return logits[:, -1].log_softmax(dim=-1)

    def advance(self, state: _Prefixes, ids: Int[Tensor, " n"]) -> _Prefixes:
        grown = torch.nn.functional.pad(state.ids, (0, 1))
        grown = grown.scatter(1, state.lengths[:, None].to(grown.device), ids[:, None])
        lengths = state.lengths + 1
        return _Prefixes(grown[:, : int(lengths.max()) if len(ids) else None], lengths)

    def select(self, state: _Prefixes, rows: Int[Tensor, " m"]) -> _Prefixes:
        return _Prefixes(state.ids[rows], state.lengths[rows.cpu()])

    def join(self, states: Sequence[_Prefixes]) -> _Prefixes:
        return _Prefixes(cat_padded([state.ids for state in states]), torch.cat([state.lengths for state in states]))


class _StepFunctionStepper(Stepper[tuple[Any, Tensor]]):
    """Calls a step function. The state is (model state, log-probabilities of the next id)."""

    single_rows = True

    def __init__(self, fn: Callable[..., Any], init_state: Any, v: int, begin: int, end: int, device: Any) -> None:
        self.fn = fn
        self.init_state = init_state
        self.v = v
        self.begin = begin
        self.end = end
        self._device = torch.device(device)

    @property
    def device(self) -> torch.device:
        return self._device

    def start(self, n: int) -> tuple[Any, Tensor]:
        state = _map(lambda x: x.expand(n, *x.shape[1:]) if len(x) == 1 else x, self.init_state)
        return self._step(state, torch.full((n,), self.begin, device=self._device))

    def _step(self, state: Any, ids: Int[Tensor, " n"]) -> tuple[Any, Tensor]:
        logits, state = self.fn(ids, state)
        match_shape("the logits of the model", tuple(logits.shape), "n v", n=len(ids), v=self.v)
        return state, logits.log_softmax(dim=-1)

    def log_probs(self, state: tuple[Any, Tensor]) -> Float[Tensor, "n v"]:
        return state[1]

    def advance(self, state: tuple[Any, Tensor], ids: Int[Tensor, " n"]) -> tuple[Any, Tensor]:
        return self._step(state[0], ids) if len(ids) else state

    def select(self, state: tuple[Any, Tensor], rows: Int[Tensor, " m"]) -> tuple[Any, Tensor]:
        return _map(lambda x: x[rows], state[0]), state[1][rows]

    def join(self, states: Sequence[tuple[Any, Tensor]]) -> tuple[Any, Tensor]:
        return _cat([state for state, _ in states]), torch.cat([log_probs for _, log_probs in states])


def from_logits(
    fn: Callable[[Tensor], Tensor], v: int, begin: int, end: int, device: torch.device | str = "cpu"
) -> Stepper[Any]:
    """Stepper of a model that maps whole sequences to logits, such as a causal ``nn.Module``.

    The model reads the prefix again at every step: ``t`` calls of lengths 1 … t. :func:`from_step` is the cached form.

    Args:
        fn: maps ids ``[n, t]`` to logits ``[n, t, v]``; the last position is used.
        v: size of the vocabulary.
        begin: id that every sequence starts with.
        end: id that ends a sequence.
        device: device of the model.

    >>> from catena import search
    >>> bigrams = torch.eye(4)[[1, 2, 3, 3]] * 9  # 0 -> 1 -> 2 -> 3
    >>> search.greedy(from_logits(lambda ids: bigrams[ids], v=4, begin=0, end=3), max_length=5)[0][0].ids
    (1, 2)
    """
    return _LogitsStepper(fn, v, begin, end, device)


def from_step(
    fn: Callable[[Tensor, Any], tuple[Tensor, Any]],
    init_state: Any,
    v: int,
    begin: int,
    end: int,
    device: torch.device | str = "cpu",
) -> Stepper[tuple[Any, Tensor]]:
    """Stepper of a model with a state, such as a recurrent network or a Transformer with a cache.

    Args:
        fn: maps the last ids ``[n]`` and the state to the logits ``[n, v]`` of the next id and the new state.
        init_state: state before ``begin``: a tensor, or nested tuples, lists and dicts of tensors, whose first axis is
            the batch. An axis of 1 is expanded to the number of sequences. None if the model has no state.
        v: size of the vocabulary.
        begin: id that every sequence starts with.
        end: id that ends a sequence.
        device: device of the model.
    """
    return _StepFunctionStepper(fn, init_state, v, begin, end, device)


def from_table(rows: Mapping[tuple[int, ...], Sequence[float | int]], end: int) -> TableStepper:
    """Stepper of an n-gram model whose probabilities are written out; see :meth:`TableStepper.of`.

    Args:
        rows: ``rows[history][w]`` is the probability of id ``w`` after ``history``, a tuple of ids.
        end: id that ends a sequence.
    """
    return TableStepper.of(rows, end)


def _map(change: Callable[[Tensor], Tensor], value: Any) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: _map(change, one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_map(change, one) for one in value)
    if value is None:
        return None
    raise ConfigError(
        f"init_state must be made of tensors, tuples, lists, dicts and None, got {type(value).__name__}. Convert it to "
        "tensors whose first axis is the batch."
    )


def _cat(values: Sequence[Any]) -> Any:
    first = values[0]
    if isinstance(first, Tensor):
        return torch.cat(list(values))
    if isinstance(first, dict):
        return {key: _cat([value[key] for value in values]) for key in first}
    if isinstance(first, list | tuple):
        return type(first)(_cat(parts) for parts in zip(*values, strict=True))
    return None
