"""Optimized CPU and GPU implementations, one folder for each subject.

- ``reference.py``: the reference implementation in plain PyTorch, which defines the correct result.
- ``cpu*.py``: compiled loops over numpy arrays.
- ``gpu.py``: Triton kernels, if there are any.
- ``ops*.py``: torch operators around the loops, with shapes for tracing, vmap rules and derivatives.

Several distributions in ``structure`` have their reference implementation there.

=====================  ==========================================================================================
``common``             code that kernels of all subjects use: compilation, threads, torch operators, floats
``chain``              linear chains: sums, scores and searches of tag sequences
``semimarkov``         segmentations: sums and searches of labeled segments
``tree``               span trees: sums and searches
``pcfg``               parses of context-free grammars with dense, low-rank and sparse rules
``dependency``         dependency trees, projective and non-projective
``alignment``          alignments by substitutions, insertions and deletions
``one_to_one``         one-to-one alignments
``ctc``                connectionist temporal classification
``edits``              edits of one string into another, by weighted edit operations
``joint``              joint n-gram models of two strings: alignment by units, and search
``automaton``          weighted automata: distances, composition, determinization, minimization
``ngram``              n-gram models: tokens, counts, estimates and queries
``spelling``           deletes, edit distances and misspelling weights of words
``features``           taggers on sparse features
``bags``               linear models on bags of features: n-grams as ids, and passes of gradient steps
``word2vec``           word vectors
``softmax``            the likelihood of a softmax layer over many words
``linear``             linear maps of few rows, in float32 and in 8 bits
``lstm``               LSTM layers over sequences of several lengths
``characters``         vectors of words from their characters
``top_k``              the k largest of many numbers
``tree_lstm``          Tree-LSTMs, level by level
``wavenet``            single steps of a WaveNet, with a queue for each layer
``linear_prediction``  adaptive linear predictors of series
``geometry``           convex hulls, triangulations and shortest tours of points in the plane
=====================  ==========================================================================================
"""
