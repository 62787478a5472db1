"""Grammars and logic: rules, parses, terms and what sentences mean.

===================  =========================================================================================
``cfg``              the values: symbols, rules with weights, grammars
``files``            grammar files in three styles, read and written; ``notation`` knows their tokens
``derivation``       a parse: a rule at each node, words below
``parse``            recognize, parse, count and weigh sentences
``binary``           rules of at most two symbols, numbered: what the dynamic programs read
``closure``          exact sums over chains of unit rules; ``empty`` over empty phrases; circles included
``chart``            the dynamic program over spans (CKY); ``forest`` has its parses, ``ranking`` ranks them
``sparse``           the same for large grammars by compiled loops; expectations and samples
``normal_form``      Chomsky normal form with the weight of every string kept, and its parses mapped back
``dense``            the same grammar as tensors, for ``catena.structure.pcfg``
``generate``         random sentences
``induce``           grammars from treebanks; ``words`` has classes for rare words, ``smoothing`` makes room for more
``recall``           the tree with the most brackets that can be expected to be right
``terms``            terms of the lambda calculus, printed; ``term_notation`` reads them; ``types`` finds their types
``lambda_calculus``  alpha-equivalence and substitution; ``reduce`` has beta-reduction to normal form
``semantics``        meanings attached to rules, so that a parse gives a logical form
===================  =========================================================================================

Needs no torch, but for ``dense``.
"""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports

if TYPE_CHECKING:
    from catena.grammar.cfg import Grammar as Grammar
    from catena.grammar.cfg import Nonterminal as Nonterminal
    from catena.grammar.cfg import Rule as Rule
    from catena.grammar.derivation import Derivation as Derivation
    from catena.grammar.files import read_grammar as read_grammar
    from catena.grammar.files import write_grammar as write_grammar
    from catena.grammar.forest import Forest as Forest
    from catena.grammar.generate import Generator as Generator
    from catena.grammar.induction import induce as induce
    from catena.grammar.normal_form import to_normal_form as to_normal_form
    from catena.grammar.parse import CFGParser as CFGParser

__all__ = [
    "CFGParser",
    "Derivation",
    "Forest",
    "Generator",
    "Grammar",
    "Nonterminal",
    "Rule",
    "induce",
    "read_grammar",
    "to_normal_form",
    "write_grammar",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "CFGParser": ".parse",
        "Derivation": ".derivation",
        "Forest": ".forest",
        "Generator": ".generate",
        "Grammar": ".cfg",
        "Nonterminal": ".cfg",
        "Rule": ".cfg",
        "induce": ".induction",
        "read_grammar": ".files",
        "to_normal_form": ".normal_form",
        "write_grammar": ".files",
    },
)
