"""Optimized CPU implementations, each with a reference implementation in plain PyTorch that defines the result.

Most subjects have three modules: ``x_loops`` is compiled with Numba and takes numpy arrays, ``x`` registers its sums as
torch operators with their derivatives, and ``x_search`` finds the best structures, the k best, and samples.

==========================================================  ==========================================================
``jit``, ``array_types``, ``threads``                       compilation, array types, threads over rows
``ops``, ``forward_mode``, ``second_derivative``            registration as torch operators, derivatives
``arc_s*``                                                  sums over dependency trees and searches for them
``floats``, ``scaled_floats``, ``*_numbers``, ``vector_*``  bits, (mantissa, exponent) pairs, SIMD exp and sums
``chain*``, ``semimarkov*``, ``batched_matvec``             tag chains and segmentations
``tree``, ``tree_loops``, ``tree_search``                   span trees
``pcfg*``, ``sparse_chart``                                 parses with dense, low-rank and sparse rules
``eisner*``, ``matrix_tree*``, ``arborescence*``            dependency trees: projective, all, the best of all
``alignment*``, ``edit_*``, ``joint_*``                     alignments, edits and joint units of two strings; CTC
``lattice*``                                                automata: distances, compose, determinize, minimize
``ngram_*``                                                 n-gram models: count, estimate, prune, pack, query
``feature_*``                                               taggers with sparse features
``word2vec_*``                                              word vectors
``output_softmax``                                          loss of a softmax over a large vocabulary, in blocks
``top``, ``top_*``, ``nearest``                             top-k
``panel_gemm``, ``small_batch_linear``, ``int8_*``          linear maps of few rows, in float32 and int8
``transformer_step``, ``decoder_step``                      one step of a Transformer in one call
``attention_cpu``, ``kv_blocks``, ``scratch``               attention of such a step, key-value blocks, reused buffers
``tree_lstm``                                               Tree-LSTMs, level by level
``geometry``                                                hulls, triangles and tours of points in the plane
==========================================================  ==========================================================
"""
