"""Grammars and logic: rules, parses, terms and what sentences mean.

===================  =========================================================================================
``cfg``              the values: symbols, rules with weights, grammars
``files``            grammar files in three styles, read and written; ``notation`` knows their tokens
``derivation``       a parse: a rule at each node, words below
``binary``           rules of at most two symbols, numbered: what the dynamic programs read
``closure``          exact sums over chains of unit rules and over empty phrases, cycles included
``normal_form``      Chomsky normal form with the weight of every string kept, and its parses mapped back
``chart``            the dynamic program over spans (CKY); ``forest`` lists, counts and ranks the parses in it
``parse``            recognise, parse, count and weigh sentences
``dense``            the same grammar as tensors, for ``catena.structure.pcfg``
``generate``         random sentences
``induce``           grammars from treebanks; ``words`` has classes for rare words
``lambda_calculus``  terms, substitution, alpha-equivalence; ``terms`` reads and prints, ``reduce`` normalises them
``types``            simple types of terms
``semantics``        meanings attached to rules, so that a parse gives a logical form
===================  =========================================================================================

A grammar knows no tensors; only ``dense`` does.
"""
