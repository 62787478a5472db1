"""Shape and type checks that the tests add to Catena, with a cache of calls that passed.

jaxtyping and beartype check the arguments and the result of each call, which took half of the time of some tests. The
verdict depends on classes, dtypes and shapes, so a call like one that passed is not checked again. Values without such
a summary, such as deep lists, are checked each time. A nested function, which jaxtyping prepares again each time that
it is defined, is prepared once.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import threading
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator
from enum import Enum
from itertools import islice
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any, get_type_hints

import jaxtyping
import numpy as np
from beartype.roar import BeartypeDecorHintNonpepNumpyException
from torch import Tensor

LONG = 32
"""Longer texts are not one of a few choices; longer tuples are not one of a fixed length."""

DEEP = 3
"""Maximum nesting of lists. Deeper values are trees, whose top is all that beartype checks."""

KEPT = 4096
"""Number of different calls of a function that are cached."""

prepared_by_jaxtyping = jaxtyping.jaxtyped
_inside: dict[int, tuple[CodeType, Reader]] = {}  # the code is held, so that its id stays its own


def jaxtyped(fn: Any = None, *, typechecker: Any) -> Any:
    """Replacement of ``jaxtyping.jaxtyped``, to be installed before Catena is imported."""
    if fn is None:
        return functools.partial(jaxtyped, typechecker=typechecker)
    if not inspect.isclass(fn):
        if any("Self" in str(hint) for hint in getattr(fn, "__annotations__", {}).values()):
            return fn  # beartype knows Self only inside of classes that it decorates
        return _remembering(fn, _reader_of(fn, typechecker))
    if dataclasses.is_dataclass(fn) and getattr(fn.__init__, "__globals__", {}).get("__name__") != __name__:
        fn.__init__ = jaxtyped(fn.__init__, typechecker=typechecker)  # type: ignore[misc]
    return fn


class Reader:
    """Checks the calls of a function as jaxtyping does, and caches those that passed."""

    def __init__(self, fn: FunctionType, typechecker: Any) -> None:
        self.seen: dict[Hashable, set[Hashable]] = {}
        self._fn: FunctionType | None = fn
        self._typechecker = typechecker
        self._inner = threading.local()
        self._lock = threading.Lock()
        code = fn.__code__
        self._names = code.co_varnames[: code.co_argcount]
        self._more = code.co_varnames[code.co_argcount + code.co_kwonlyargcount :][:1] or ("",)

    @functools.cached_property
    def by_value(self) -> Container[str]:
        """The arguments whose value is checked, and not only their class: choices, and sizes in other hints."""
        assert self._fn is not None
        try:
            hints = get_type_hints(self._fn, include_extras=True)
        except Exception:  # a name that only type checkers know
            return _Everything()
        sizes = re.findall(r"{(\w+)", str(hints)[1:])
        return {*sizes, *(name for name, hint in hints.items() if "Literal" in str(hint))}

    def summaries(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable | None:
        """A summary of the arguments of a call if some are checked by value; None if there is none."""
        names = (*self._names, *self._more * (len(args) - len(self._names)))
        found = [
            (name, summary(x, name in self.by_value)) for name, x in (*zip(names, args, strict=False), *kwargs.items())
        ]
        return None if any(one is None for _, one in found) else tuple(found)

    def call(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of ``fn``, which has the code of this reader, with a check of arguments and result."""
        self._inner.call = fn
        try:
            return self._get_checked()(*args, **kwargs)
        finally:
            self._inner.__dict__.pop("call", None)

    def check(self, out: Any, args: tuple[Any, ...], kwargs: dict[str, Any], start: int) -> None:
        """Check a call whose result is known; if ``start`` is 1, only in the ways that :meth:`call` did not."""
        for result, *given in islice(_readings([out, *args, *kwargs.values()], bool(self.by_value)), start, None):
            named = dict(zip(kwargs, given[len(args) :], strict=True))
            self.call(_constant(result), tuple(given[: len(args)]), named)

    def remember(self, given: Hashable, found: Hashable) -> None:
        if len(self.seen) >= KEPT:
            self.seen.clear()
        self.seen.setdefault(given, set()).add(found)

    def _get_checked(self) -> Callable[..., Any]:
        with self._lock:  # cached_property has no lock of its own since Python 3.12
            return self._checked

    @functools.cached_property
    def _checked(self) -> Callable[..., Any]:
        """A checked function of the same signature, which calls the function that :meth:`call` was given."""
        fn, inner = self._fn, self._inner
        assert fn is not None

        def given(*args: Any, **kwargs: Any) -> Any:
            return inner.__dict__.pop("call")(*args, **kwargs)

        twin: Any = FunctionType(given.__code__, fn.__globals__, fn.__name__, None, given.__closure__)
        twin.__qualname__, twin.__module__, twin.__signature__ = fn.__qualname__, fn.__module__, inspect.signature(fn)
        twin.__annotations__ = dict(_evaluated(fn))  # what older versions of jaxtyping read instead of the signature
        self._fn = None  # what the function holds is not ours to keep
        try:
            return prepared_by_jaxtyping(twin, typechecker=self._typechecker)
        except BeartypeDecorHintNonpepNumpyException:
            if np.__version__ >= "2":
                raise
            return twin  # beartype cannot read the types of integers that numpy 1 writes


def _evaluated(fn: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """The annotations of a function, with Any for those that use a name that only type checkers know."""
    for name, hint in fn.__annotations__.items():
        one = SimpleNamespace(__annotations__={name: hint})
        try:
            yield name, get_type_hints(one, fn.__globals__, include_extras=True)[name]
        except Exception:
            yield name, Any


def _constant(result: Any) -> Callable[..., Any]:
    return lambda *_, **__: result


class _Everything:
    """Contains all names."""

    def __contains__(self, name: object) -> bool:
        return True


def _readings(values: list[Any], by_value: bool) -> Iterator[list[Any]]:
    """Yield what is checked: beartype checks one random item of a list, and no similar call may follow.

    So a list is followed by lists of one of its items, and a tuple, whose length may matter, is checked repeatedly.
    """
    mixed = [x if isinstance(x, (list, tuple)) and _is_mixed(x, by_value) else () for x in values]
    for _ in range(1 + 2 * max((len(x) for x in mixed if isinstance(x, tuple)), default=0)):
        yield values
    for i, x in enumerate(mixed):
        if isinstance(x, list):
            for item in x:
                yield [*values[:i], [item], *values[i + 1 :]]


def _is_mixed(items: list[Any] | tuple[Any, ...], by_value: bool) -> bool:
    if len(items) > LONG:
        return False
    found = {summary(x, by_value) for x in items}
    return None in found or len(found) > 1


def _reader_of(fn: FunctionType, typechecker: Any) -> Reader:
    """A new reader, or the one of an earlier, identical definition of a nested function."""
    inside = "<locals>" in fn.__qualname__ and fn.__defaults__ is None and fn.__kwdefaults__ is None
    if not inside or not all(isinstance(hint, str) for hint in fn.__annotations__.values()):
        return Reader(fn, typechecker)
    code = fn.__code__
    if id(code) not in _inside:
        _inside[id(code)] = code, Reader(fn, typechecker)
    return _inside[id(code)][1]


def _remembering(fn: FunctionType, reader: Reader) -> Callable[..., Any]:
    seen = reader.seen
    config = jaxtyping.config

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if config.jaxtyping_disable:
            return fn(*args, **kwargs)
        if reader.by_value:
            given = reader.summaries(args, kwargs)
        elif kwargs:
            given = _summaries((*args, *kwargs.values()), tuple(kwargs))
        else:
            given = _summaries(args, None)
        passed = seen.get(given) if given is not None else None
        out = fn(*args, **kwargs) if passed is not None else reader.call(fn, args, kwargs)
        found = summary(out, "return" in reader.by_value)
        if passed is None or found is None or found not in passed:
            reader.check(out, args, kwargs, start=int(passed is None))
            if given is not None and found is not None:
                reader.remember(given, found)
        return out

    return call


# --- summaries ----------------------------------------------------------------------------------------------


def summary(x: Any, by_value: bool = True, within: int = 0) -> Hashable | None:
    """Everything a check can depend on in a value nested in ``within`` lists; None if that is not known."""
    kind = type(x)
    if kind in _plain:
        return kind
    rule = _rules.get(kind)
    if rule is None:
        rule = _rule(kind)
        if rule is None:
            _plain.add(kind)
            _by_class.add(kind)
            return kind
        _rules[kind] = rule
    return rule(x, by_value, within)


Rule = Callable[[Any, bool, int], Hashable | None]
_rules: dict[type, Rule] = {}
_plain: set[type] = set()
"""Classes whose values all pass or fail the same checks."""

_by_class: set[type] = {bool, int, str}
"""These classes, and those whose values do so unless they are checked by value."""


def _rule(kind: type) -> Rule | None:
    if issubclass(kind, (Tensor, np.ndarray)):
        return lambda x, *_: (kind, x.dtype, x.shape)
    if issubclass(kind, type):
        return lambda x, *_: (kind, x)
    if issubclass(kind, Enum) or kind in (bool, int):
        return lambda x, by_value, _: (kind, x) if by_value else kind
    if kind is str:  # no choice is longer
        return lambda x, by_value, _: x if by_value and len(x) <= LONG else kind
    if issubclass(kind, str):
        return lambda x, by_value, _: (kind, str(x)) if by_value else kind
    if issubclass(kind, tuple):
        return lambda x, by_value, within: (
            _summaries(x, kind, by_value, within + 1) if len(x) <= LONG else _kinds(x, kind, by_value, within)
        )
    if kind is list:
        return lambda x, by_value, within: _kinds(x, kind, by_value, within)
    if kind in (set, frozenset):
        return lambda x, by_value, within: _one_kind(x, kind, by_value, within)
    if kind is dict:
        return _of_dict
    if issubclass(kind, Collection):
        return lambda *_: None
    return None  # also for iterators, whose items no check can read


def _kinds(items: Collection[Any], kind: type, by_value: bool, within: int) -> tuple[type, frozenset[Any]] | None:
    """A class and the different summaries of the items of a value of it, whose order and number no check reads."""
    if not by_value:
        kinds = set(map(type, items))
        if len(kinds) <= 1 and kinds <= _by_class:
            return kind, frozenset(kinds)
    if len(items) > LONG or within >= DEEP:
        return None
    found = frozenset(summary(x, by_value, within + 1) for x in items)
    return None if None in found else (kind, found)


def _one_kind(items: Collection[Any], kind: type, by_value: bool, within: int) -> Hashable | None:
    """The same, if all items are similar: beartype checks the first one of a set or dictionary."""
    found = _kinds(items, kind, by_value, within)
    return found if found and len(found[1]) <= 1 else None


def _of_dict(x: dict[Any, Any], by_value: bool, within: int) -> Hashable | None:
    keys, values = (_one_kind(items, dict, by_value, within) for items in (x, x.values()))
    if keys and values:
        return keys, values
    return _summaries([*x, *x.values()], dict, by_value, within + 1) if len(x) <= LONG else None


def _summaries(values: Iterable[Any], kind: Hashable, by_value: bool = False, within: int = 0) -> Hashable | None:
    if within > DEEP:
        return None
    simple = _plain if by_value else _by_class
    found = [kind]
    for x in values:
        cls = type(x)
        if cls in simple:  # the two most frequent cases, of every call of every test
            found.append(cls)
        elif cls is Tensor:
            found.append((x.dtype, x.shape))
        else:
            one = summary(x, by_value, within)
            if one is None:
                return None
            found.append(one)
    return tuple(found)
