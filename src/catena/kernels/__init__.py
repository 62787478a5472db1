"""Fast twins of what is plain above them. They would vanish if the hardware were infinitely fast.

The plain form defines what is right.

Most come in threes: ``x_loops`` is compiled and knows numpy alone, ``x`` makes operators of torch of its sums, with
their derivatives, and ``x_search`` finds the best members, the k best, and samples.

==================================================  ==================================================================
``compiled``, ``array_types``, ``threads``          how loops are compiled, what they take, how rows are shared out
``ops``, ``forward_mode``, ``second_derivative``    how loops become operators of torch, with their derivatives
``arc_s*``                                          the same for sums over and searches for dependency trees
``floats``, ``*_numbers``, ``vector_*``             bits, exponents without end, exp and sums as vector instructions
``chain*``, ``semimarkov*``, ``four_rows``          tag chains and segmentations
``tree``, ``tree_loops``, ``tree_search``           span trees
``pcfg*``, ``sparse_chart``                         parses by dense, low-rank and sparse rules
``eisner*``, ``matrix_tree*``, ``arborescence*``    dependency trees: projective, all of them, the best of all
``alignment*``, ``edit_*``, ``joint_*``             alignments, edits and units of two strings; CTC
``lattice*``                                        automata: distances, compositions, determinization, minimization
``ngram_*``                                         n-gram models: counted, estimated, pruned, packed, asked
``feature_*``                                       taggers on sparse features
``word2vec_*``                                      word vectors
``output_softmax``                                  the loss of a softmax over many words, in blocks
``top``, ``top_*``, ``nearest``                     the largest of many numbers
``products``, ``few_rows``, ``int8_*``              maps of few rows, in floats and in 8 bits
``transformer_step``, ``decoder_step``              one step of a Transformer in one call
``looks``, ``blocks``, ``memory``                   what heads of such a step find, and where that is kept
``tree_lstm``                                       Tree-LSTMs, level by level
``planar``                                          hulls, triangles and round trips of points in the plane
==================================================  ==================================================================
"""
