"""Optimized CPU and GPU implementations. Each has a reference implementation in plain PyTorch.

The reference implementation defines the correct result.

Most come in threes: ``x_loops`` has compiled loops over numpy arrays, ``x`` wraps their sums as differentiable torch
operators, and ``x_search`` finds the best structures, the k best, and samples.

==================================================  ==================================================================
``jit``, ``array_types``, ``threads``               compilation of loops, array types, distribution of rows over threads
``ops``, ``forward_mode``, ``second_derivative``    conversion of loops to differentiable torch operators
``arc_s*``                                          the same for sums over and searches for dependency trees
``*floats``, ``*_numbers``, ``vector_*``            floats of unbounded range, vectorized exp and sums
``chain*``, ``semimarkov*``, ``batched_matvec``     tag chains and segmentations
``tree``, ``tree_loops``, ``tree_search``           span trees
``pcfg*``, ``sparse_chart``                         parses by dense, low-rank and sparse rules
``eisner*``, ``matrix_tree*``, ``arborescence*``    dependency trees: projective, all of them, the best of all
``alignment*``, ``edit_*``, ``joint_*``             alignments, edits and units of two strings; CTC
``lattice*``                                        automata: distances, compositions, determinization, minimization
``ngram_*``                                         n-gram models: counting, estimation, pruning, packing, queries
``feature_*``                                       taggers on sparse features
``word2vec_*``                                      word vectors
``output_softmax``                                  the loss of a softmax over many words, in blocks
``top``, ``top_*``, ``nearest``                     the largest of many numbers
``panel_gemm``, ``small_batch_linear``, ``int8_*``  maps of few rows, in floats and in 8 bits
``transformer_step``, ``decoder_step``              one step of a Transformer in one call
``attention_cpu``, ``kv_blocks``, ``scratch``       attention of such a step, and its key-value cache
``tree_lstm``                                       Tree-LSTMs, level by level
``geometry``                                        hulls, triangles and round trips of points in the plane
==================================================  ==================================================================
"""
