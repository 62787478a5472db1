"""Weighted finite-state automata: acceptors and transducers over any semiring, with differentiable weights.

==============  ==============================================================================================
``wfsa``        the class ``Automaton``: arcs as tensors, initial and final weights, a semiring
``symbols``     names of labels
``build``       from strings, lexicons and edit models; ``ngrams`` from n-gram tables; ``regex`` from patterns
``rational``    union, concatenation, closure, reversal, inversion, projection, trimming
``compose``     composition and intersection; ``failures`` expands failure arcs
``epsilon``     epsilon removal; ``determinize``, ``minimize``, ``push``, ``equivalence``
``distance``    total weight and shortest distances, exact for cyclic automata (Lehmann's closure)
``paths``       distributions over the paths of an automaton; ``search`` for the best strings
``table``       deterministic automata as tables that step through a batch of states
``text``        AT&T text format; ``openfst`` reads and writes OpenFst's binary files
==============  ==============================================================================================
"""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports

if TYPE_CHECKING:
    from catena.structure.automaton.build import Arc as Arc
    from catena.structure.automaton.build import edit_model as edit_model
    from catena.structure.automaton.build import from_arcs as from_arcs
    from catena.structure.automaton.build import from_lexicon as from_lexicon
    from catena.structure.automaton.build import from_string as from_string
    from catena.structure.automaton.build import from_strings as from_strings
    from catena.structure.automaton.composition import compose as compose
    from catena.structure.automaton.composition import intersect as intersect
    from catena.structure.automaton.determinization import determinize as determinize
    from catena.structure.automaton.determinization import is_deterministic as is_deterministic
    from catena.structure.automaton.distance import arc_marginals as arc_marginals
    from catena.structure.automaton.distance import distances as distances
    from catena.structure.automaton.distance import log_total as log_total
    from catena.structure.automaton.distance import total as total
    from catena.structure.automaton.epsilon import remove_epsilon as remove_epsilon
    from catena.structure.automaton.equivalence import equivalent as equivalent
    from catena.structure.automaton.failures import expand_failures as expand_failures
    from catena.structure.automaton.minimization import minimize as minimize
    from catena.structure.automaton.ngrams import from_ngram_table as from_ngram_table
    from catena.structure.automaton.ngrams import from_ngrams as from_ngrams
    from catena.structure.automaton.openfst import from_openfst as from_openfst
    from catena.structure.automaton.openfst import read_openfst as read_openfst
    from catena.structure.automaton.openfst import to_openfst as to_openfst
    from catena.structure.automaton.openfst import write_openfst as write_openfst
    from catena.structure.automaton.paths import PathConstraint as PathConstraint
    from catena.structure.automaton.paths import PathDistribution as PathDistribution
    from catena.structure.automaton.pushing import normalize as normalize
    from catena.structure.automaton.pushing import push as push
    from catena.structure.automaton.rational import closure as closure
    from catena.structure.automaton.rational import concatenate as concatenate
    from catena.structure.automaton.rational import connect as connect
    from catena.structure.automaton.rational import invert as invert
    from catena.structure.automaton.rational import project as project
    from catena.structure.automaton.rational import reverse as reverse
    from catena.structure.automaton.rational import union as union
    from catena.structure.automaton.regex import from_regex as from_regex
    from catena.structure.automaton.search import ScoredPath as ScoredPath
    from catena.structure.automaton.search import best_paths as best_paths
    from catena.structure.automaton.search import best_strings as best_strings
    from catena.structure.automaton.symbols import SymbolTable as SymbolTable
    from catena.structure.automaton.text import from_text as from_text
    from catena.structure.automaton.text import read_text as read_text
    from catena.structure.automaton.text import to_text as to_text
    from catena.structure.automaton.text import write_text as write_text
    from catena.structure.automaton.transition_table import TransitionTable as TransitionTable
    from catena.structure.automaton.wfsa import Automaton as Automaton

__all__ = [
    "Arc",
    "Automaton",
    "PathConstraint",
    "PathDistribution",
    "ScoredPath",
    "SymbolTable",
    "TransitionTable",
    "arc_marginals",
    "best_paths",
    "best_strings",
    "closure",
    "compose",
    "concatenate",
    "connect",
    "determinize",
    "distances",
    "edit_model",
    "equivalent",
    "expand_failures",
    "from_arcs",
    "from_lexicon",
    "from_ngram_table",
    "from_ngrams",
    "from_openfst",
    "from_regex",
    "from_string",
    "from_strings",
    "from_text",
    "intersect",
    "invert",
    "is_deterministic",
    "log_total",
    "minimize",
    "normalize",
    "project",
    "push",
    "read_openfst",
    "read_text",
    "remove_epsilon",
    "reverse",
    "to_openfst",
    "to_text",
    "total",
    "union",
    "write_openfst",
    "write_text",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Arc": ".build",
        "Automaton": ".wfsa",
        "PathConstraint": ".paths",
        "PathDistribution": ".paths",
        "ScoredPath": ".search",
        "SymbolTable": ".symbols",
        "TransitionTable": ".transition_table",
        "arc_marginals": ".distance",
        "best_paths": ".search",
        "best_strings": ".search",
        "closure": ".rational",
        "compose": ".composition",
        "concatenate": ".rational",
        "connect": ".rational",
        "determinize": ".determinization",
        "distances": ".distance",
        "edit_model": ".build",
        "equivalent": ".equivalence",
        "expand_failures": ".failures",
        "from_arcs": ".build",
        "from_lexicon": ".build",
        "from_ngram_table": ".ngrams",
        "from_ngrams": ".ngrams",
        "from_openfst": ".openfst",
        "from_regex": ".regex",
        "from_string": ".build",
        "from_strings": ".build",
        "from_text": ".text",
        "intersect": ".composition",
        "invert": ".rational",
        "is_deterministic": ".determinization",
        "log_total": ".distance",
        "minimize": ".minimization",
        "normalize": ".pushing",
        "project": ".rational",
        "push": ".pushing",
        "read_openfst": ".openfst",
        "read_text": ".text",
        "remove_epsilon": ".epsilon",
        "reverse": ".rational",
        "to_openfst": ".openfst",
        "to_text": ".text",
        "total": ".distance",
        "union": ".rational",
        "write_openfst": ".openfst",
        "write_text": ".text",
    },
)
