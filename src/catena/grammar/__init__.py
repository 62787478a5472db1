"""Context-free grammars, parsing, lambda terms and the logical forms of sentences.

===================  =========================================================================================
``cfg``              the values: symbols, weighted rules, grammars
``files``            reading and writing grammar files in three styles; ``notation`` has their tokens
``derivation``       a parse: a rule at each node, words at the leaves
``parse``            recognition, parsing, counting and weights of sentences
``binary``           rules of at most two symbols with integer ids, the input of the dynamic programs
``closure``          exact sums over chains of unit rules; ``epsilon_removal`` over empty phrases; cycles included
``chart``            the dynamic program over spans (CKY); ``forest`` has its parses, ``ranking`` sorts them
``compiled_chart``   the same for large grammars by compiled loops; expectations and samples
``normal_form``      Chomsky normal form that keeps the weight of every string, and the inverse map for its parses
``dense``            the same grammar as tensors, for ``catena.structure.pcfg``
``generate``         random sentences
``induction``        grammars from treebanks; ``word_classes`` groups rare words; ``smoothing`` adds unseen rules
``max_recall_parse`` the tree with the largest expected number of correct brackets
``terms``            terms of the lambda calculus; ``term_notation`` parses them; ``types`` infers their types
``lambda_calculus``  alpha-equivalence and substitution; ``reduce`` has beta-reduction to normal form
``semantics``        meanings attached to rules, so that a parse gives a logical form
===================  =========================================================================================

Only ``dense`` needs torch.
"""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports

if TYPE_CHECKING:
    from catena.grammar.cfg import Grammar as Grammar
    from catena.grammar.cfg import Nonterminal as Nonterminal
    from catena.grammar.cfg import Rule as Rule
    from catena.grammar.derivation import Derivation as Derivation
    from catena.grammar.files import format_grammar as format_grammar
    from catena.grammar.files import parse_grammar as parse_grammar
    from catena.grammar.files import read_grammar as read_grammar
    from catena.grammar.files import write_grammar as write_grammar
    from catena.grammar.forest import Forest as Forest
    from catena.grammar.generate import Generator as Generator
    from catena.grammar.induction import induce as induce
    from catena.grammar.normal_form import to_normal_form as to_normal_form
    from catena.grammar.parse import CFGParser as CFGParser
    from catena.grammar.term_notation import parse_term as parse_term

__all__ = [
    "CFGParser",
    "Derivation",
    "Forest",
    "Generator",
    "Grammar",
    "Nonterminal",
    "Rule",
    "format_grammar",
    "induce",
    "parse_grammar",
    "parse_term",
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
        "format_grammar": ".files",
        "induce": ".induction",
        "parse_grammar": ".files",
        "parse_term": ".term_notation",
        "read_grammar": ".files",
        "to_normal_form": ".normal_form",
        "write_grammar": ".files",
    },
)
