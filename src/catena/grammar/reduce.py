r"""Beta-reduction to normal form in normal order (leftmost outermost redex first).

If a term has a normal form, this order finds it (Curry and Feys 1958). Some terms have none: Ω, which is
``(\x.x x)(\x.x x)``, reduces to itself forever. So steps and size are limited, and the error explains the reason.
"""

from __future__ import annotations

from collections.abc import Iterator

from catena.errors import LimitError
from catena.grammar.lambda_calculus import alpha_equal, substitute
from catena.grammar.terms import Abstraction, Application, Term

STEPS = 10_000
_SIZE = 1_000_000

_Context = tuple[str, Term] | tuple[str, str]
"""The context of the focused term: ("argument", a) if the focus is applied to a; ("function", f) if f is applied to the
focus; ("body", x) if the focus is the body of an abstraction over x.
"""


def normal_form(term: Term, *, steps: int = STEPS, size: int = _SIZE, eta: bool = False) -> Term:
    r"""Return the beta-normal form of a term.

    Args:
        term: any term.
        steps: largest number of contracted redexes; more raise :class:`LimitError`.
        size: largest number of nodes of an intermediate term; more raise :class:`LimitError`.
        eta: also reduce ``\x.f x`` to ``f`` if x is not free in f.
    """
    machine = _Machine(term, steps, size)
    while machine.step():
        pass
    return eta_reduce(machine.focus) if eta else machine.focus


def reductions(term: Term, *, steps: int = STEPS, size: int = _SIZE) -> Iterator[Term]:
    """Yield the term and its form after each step, up to its normal form."""
    machine = _Machine(term, steps, size)
    yield term
    while machine.step():
        yield machine.whole()


def eta_reduce(term: Term) -> Term:
    r"""Return the term with every ``\x.f x`` replaced by ``f`` if x is not free in f, from the inside out."""
    results: list[Term] = []
    waiting: list[tuple[Term, bool]] = [(term, False)]
    while waiting:
        here, done = waiting.pop()
        if isinstance(here, Application):
            if not done:
                waiting += [(here, True), (here.argument, False), (here.function, False)]
            else:
                argument = results.pop()
                results.append(Application(results.pop(), argument))
        elif isinstance(here, Abstraction):
            if not done:
                waiting += [(here, True), (here.body, False)]
            else:
                results.append(_eta(Abstraction(here.variable, results.pop())))
        else:
            results.append(here)
    return results[0]


def _eta(term: Abstraction) -> Term:
    body = term.body
    if isinstance(body, Application) and body.argument.free == {term.variable} and body.argument.size == 1:
        return body.function if term.variable not in body.function.free else term
    return term


class _Machine:
    """The term as a focus and its context, so that a step does not restart at the root."""

    def __init__(self, term: Term, steps: int, size: int) -> None:
        self.original, self.focus = term, term
        self.around: list[_Context] = []
        self.done, self.most_steps, self.most_size = 0, steps, size
        self.waiting_size = 0  # nodes in the context
        self.finished = False

    def step(self) -> bool:
        """Move to the next redex and contract it. Return False if the focus is the normal form."""
        while not self.finished:
            if isinstance(self.focus, Application):
                self._enter("argument", self.focus.argument, self.focus.function)
            elif isinstance(self.focus, Abstraction):
                if self.around and self.around[-1][0] == "argument":
                    self._contract(self.focus)
                    return True
                self._enter("body", self.focus.variable, self.focus.body)
            else:
                self._leave()
        return False

    def whole(self) -> Term:
        """Return the complete term."""
        term = self.focus
        for kind, other in reversed(self.around):
            term = _plugged(kind, other, term)
        return term

    def _enter(self, kind: str, other: Term | str, focus: Term) -> None:
        self.around.append((kind, other))  # type: ignore[arg-type]
        self.waiting_size += 1 if isinstance(other, str) else other.size + 1
        self.focus = focus

    def _contract(self, function: Abstraction) -> None:
        argument = self.around.pop()[1]
        assert isinstance(argument, Term)
        self.waiting_size -= argument.size + 1
        if self.done >= self.most_steps:
            raise LimitError(
                f"{_short(self.original)} has no normal form within {self.most_steps:,} steps. It may have none, like "
                "(\\x.x x)(\\x.x x); otherwise raise the limit steps."
            )
        self.focus = substitute(function.body, {function.variable: argument})
        self.done += 1
        if self.focus.size == function.size + argument.size + 1:
            self._check_progress(Application(function, argument))
        if self.focus.size + self.waiting_size > self.most_size:
            raise LimitError(
                f"{_short(self.original)} grew to more than {self.most_size:,} nodes in {self.done:,} steps. It may "
                "have no normal form; otherwise raise the limit size."
            )

    def _check_progress(self, redex: Term) -> None:
        if alpha_equal(redex, self.focus):
            raise LimitError(
                f"{_short(self.original)} has no normal form: in step {self.done:,} {_short(redex)} reduces to itself. "
                "Change the term."
            )

    def _leave(self) -> None:
        """Move up from a focus in normal form, unless it is an applied abstraction, to the next unfinished part."""
        while self.around:
            kind, other = self.around.pop()
            if kind == "argument":
                assert isinstance(other, Term)
                self.waiting_size += self.focus.size - other.size
                self.around.append(("function", self.focus))
                self.focus = other
                return
            self.waiting_size -= 1 if isinstance(other, str) else other.size + 1
            self.focus = _plugged(kind, other, self.focus)
        self.finished = True


def _plugged(kind: str, other: Term | str, focus: Term) -> Term:
    if isinstance(other, str):
        return Abstraction(other, focus)
    return Application(focus, other) if kind == "argument" else Application(other, focus)


def _short(term: Term, most: int = 60) -> str:
    if term.size > 1000:
        return f"the term of {term.size:,} nodes"
    text = str(term)
    return text if len(text) <= most else text[:most] + "…"
