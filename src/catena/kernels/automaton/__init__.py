"""Weighted automata: distances, composition, determinization, minimization. Tested in tests/structure/automaton."""
