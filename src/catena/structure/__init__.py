"""Exact distributions over tag sequences, segmentations, trees, alignments and automaton paths."""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports

if TYPE_CHECKING:
    from catena.structure import automaton as automata
    from catena.structure import semirings as semirings
    from catena.structure.alignment import Alignment as Alignment
    from catena.structure.alignment_constraints import AlignmentConstraint as AlignmentConstraint
    from catena.structure.alignment_one_to_one import OneToOneAlignment as OneToOneAlignment
    from catena.structure.alignment_one_to_one import PairConstraint as PairConstraint
    from catena.structure.automaton.paths import PathConstraint as PathConstraint
    from catena.structure.automaton.paths import PathDistribution as PathDistribution
    from catena.structure.automaton.wfsa import Automaton as Automaton
    from catena.structure.backend import use_backend as use_backend
    from catena.structure.base import StructuredDistribution as StructuredDistribution
    from catena.structure.base import TopK as TopK
    from catena.structure.chain import LinearChain as LinearChain
    from catena.structure.constraints import ChainConstraint as ChainConstraint
    from catena.structure.ctc import CTC as CTC
    from catena.structure.ctc import FrameConstraint as FrameConstraint
    from catena.structure.dependency import ArcConstraint as ArcConstraint
    from catena.structure.dependency_tree import DependencyTree as DependencyTree
    from catena.structure.edits import EditLattice as EditLattice
    from catena.structure.low_rank_pcfg import LowRankPCFG as LowRankPCFG
    from catena.structure.nonprojective import NonProjectiveTree as NonProjectiveTree
    from catena.structure.pcfg import PCFG as PCFG
    from catena.structure.projective import ProjectiveTree as ProjectiveTree
    from catena.structure.segment_constraints import SegmentConstraint as SegmentConstraint
    from catena.structure.semimarkov import SemiMarkov as SemiMarkov
    from catena.structure.span_constraints import SpanConstraint as SpanConstraint
    from catena.structure.tree import SpanTree as SpanTree

__all__ = [
    "CTC",
    "PCFG",
    "Alignment",
    "AlignmentConstraint",
    "ArcConstraint",
    "Automaton",
    "ChainConstraint",
    "DependencyTree",
    "EditLattice",
    "FrameConstraint",
    "LinearChain",
    "LowRankPCFG",
    "NonProjectiveTree",
    "OneToOneAlignment",
    "PairConstraint",
    "PathConstraint",
    "PathDistribution",
    "ProjectiveTree",
    "SegmentConstraint",
    "SemiMarkov",
    "SpanConstraint",
    "SpanTree",
    "StructuredDistribution",
    "TopK",
    "automata",
    "semirings",
    "use_backend",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Alignment": ".alignment",
        "AlignmentConstraint": ".alignment_constraints",
        "ArcConstraint": ".dependency",
        "Automaton": ".automaton.wfsa",
        "CTC": ".ctc",
        "ChainConstraint": ".constraints",
        "DependencyTree": ".dependency_tree",
        "EditLattice": ".edits",
        "FrameConstraint": ".ctc",
        "LinearChain": ".chain",
        "LowRankPCFG": ".low_rank_pcfg",
        "NonProjectiveTree": ".nonprojective",
        "OneToOneAlignment": ".alignment_one_to_one",
        "PCFG": ".pcfg",
        "PairConstraint": ".alignment_one_to_one",
        "PathConstraint": ".automaton.paths",
        "PathDistribution": ".automaton.paths",
        "ProjectiveTree": ".projective",
        "SegmentConstraint": ".segment_constraints",
        "SemiMarkov": ".semimarkov",
        "SpanConstraint": ".span_constraints",
        "SpanTree": ".tree",
        "StructuredDistribution": ".base",
        "TopK": ".base",
        "automata": ".automaton:",
        "semirings": ".semirings:",
        "use_backend": ".backend",
    },
)
