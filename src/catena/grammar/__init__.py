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
