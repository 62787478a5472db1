"""One entry to both kinds of dependency trees. Tested in tests/structure/test_dependency.py."""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.structure.constraints import OnInfeasible
from catena.structure.dependency import ArcConstraint
from catena.structure.nonprojective import NonProjectiveTree
from catena.structure.projective import ProjectiveTree


def DependencyTree(  # noqa: N802
    arcs: Float[Tensor, "*batch n n"],
    labels: Float[Tensor, "*#batch n n k"] | None = None,
    *,
    projective: bool = False,
    single_root: bool = True,
    lengths: Int[Tensor, "*#batch"] | None = None,
    mask: Bool[Tensor, "*#batch t"] | None = None,
    constraint: ArcConstraint | None = None,
    on_infeasible: OnInfeasible = "error",
) -> ProjectiveTree | NonProjectiveTree:
    """Distribution over the dependency trees of a sentence, projective or not.

    Args:
        arcs: ``arcs[..., h, m]`` is the score of the arc from head ``h`` to word ``m``; node 0 is the root.
        labels: ``labels[..., h, m, q]`` is the score of label ``q`` on that arc, added to it; None for unlabeled trees.
        projective: True for projective trees (Eisner's algorithm), False for all trees (matrix-tree theorem).
        single_root: whether exactly one word is attached to the root, as in Universal Dependencies.
        lengths: number of words of each sentence; all words if None.
        mask: True where a word is real; all words if None.
        constraint: allowed arcs and labels; the distribution is conditioned on it.
        on_infeasible: what to do if the constraint allows no tree: raise an error, or let log Z be -inf.

    Returns:
        A :class:`ProjectiveTree` or a :class:`NonProjectiveTree`.
    """
    make = ProjectiveTree if projective else NonProjectiveTree
    return make(arcs, labels, lengths, mask, single_root, constraint, on_infeasible)
