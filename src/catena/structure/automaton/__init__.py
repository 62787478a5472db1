"""Weighted automata: acceptors and transducers over any semiring, with differentiable weights.

==============  ==============================================================================================
``value``       the machine: arcs as tensors, initial and final weights, a semiring
``symbols``     names of labels
``build``       from strings, lexicons and edit models; ``ngrams`` from n-gram tables; ``regex`` from patterns
``rational``    union, concatenation, closure, reversal, inversion, projection, trimming
``compose``     composition and intersection; ``failures`` makes plain arcs of failure arcs
``epsilon``     removal of epsilons; ``determinize``, ``minimize``, ``push``, ``equivalence``
``distance``    the total weight and shortest distances, exact on cyclic machines (Lehmann's closure)
``paths``       machines as distributions over paths: every question; ``search`` for the best strings
``table``       deterministic machines as rows of tensors, stepped through many states at once
``text``        AT&T text; ``openfst`` reads and writes OpenFst's binary files
==============  ==============================================================================================
"""
