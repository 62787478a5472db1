r"""Beta-reduction to normal form, in normal order: the leftmost outermost redex first.

If a term has a normal form at all, this order finds it (Curry and Feys 1958). Some terms have none: Ω, which is
``(\x.x x)(\x.x x)``, gives itself for ever. So steps and size are limited, and the error says what happened.
"""

from __future__ import annotations

from collections.abc import Iterator

from catena.errors import LimitError
from catena.grammar.lambda_calculus import alpha_equal, substitute
from catena.grammar.terms import Abstraction, Application, Term

STEPS = 10_000
_SIZE = 1_000_000

_Context = tuple[str, Term] | tuple[str, str]
"""What waits around the term in focus: ("argument", a) where the focus is applied to a; ("function", f) where f is
applied to the focus; ("body", x) where the focus is the body of an abstraction over x.
"""


def normal_form(term: Term, *, steps: int = STEPS, size: int = _SIZE, eta: bool = False) -> Term:
    r"""The beta-normal form.

    Args:
        term: any term.
        steps: how many redexes may be contracted; beyond it :class:`LimitError` is raised.
        size: how many nodes a term on the way may have.
        eta: whether ``\x.f x`` becomes ``f``, too, where x is not free in f.
    """
    machine = _Machine(term, steps, size)
    while machine.step():
        pass
    return eta_reduce(machine.focus) if eta else machine.focus


def reductions(term: Term, *, steps: int = STEPS, size: int = _SIZE) -> Iterator[Term]:
    """The term, and what it becomes after each step, to its normal form."""
    machine = _Machine(term, steps, size)
    yield term
    while machine.step():
        yield machine.whole()


def eta_reduce(term: Term) -> Term:
    r"""With every ``\x.f x`` replaced by ``f`` where x is not free in f, from the inside out."""
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
    """The term as a focus and what is around it, so that a step costs no walk from the top."""

    def __init__(self, term: Term, steps: int, size: int) -> None:
        self.original, self.focus = term, term
        self.around: list[_Context] = []
        self.done, self.most_steps, self.most_size = 0, steps, size
        self.waiting_size = 0  # nodes in what is around
        self.finished = False

    def step(self) -> bool:
        """Go to the next redex and contract it; False when there is none and the focus is the normal form."""
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
        """The term with the focus in its place."""
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
                f"no normal form was reached in {self.most_steps:,} steps: {_short(self.original)} may have none, as "
                "Ω, (\\x.x x)(\\x.x x), has none; if it has one, allow more with steps="
            )
        self.focus = substitute(function.body, {function.variable: argument})
        self.done += 1
        if self.focus.size == function.size + argument.size + 1:
            self._check_progress(Application(function, argument))
        if self.focus.size + self.waiting_size > self.most_size:
            raise LimitError(
                f"after {self.done:,} steps {_short(self.original)} has grown beyond {self.most_size:,} nodes: it may "
                "have no normal form; if it has one, allow more with size="
            )

    def _check_progress(self, redex: Term) -> None:
        if alpha_equal(redex, self.focus):
            raise LimitError(
                f"{_short(self.original)} has no normal form: in step {self.done:,} {_short(redex)} becomes itself "
                "again, so that reduction never ends"
            )

    def _leave(self) -> None:
        """Up from a focus in normal form that is no abstraction with an argument, to the next part that is not done."""
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
