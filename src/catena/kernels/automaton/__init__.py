"""Weighted automata: distances, composition, determinization, minimization."""
