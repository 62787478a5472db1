"""Vectors of words for their own sake: learned from text, asked for neighbors and analogies, scored, and mapped."""
