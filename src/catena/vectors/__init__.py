"""Vectors of words for their own sake: learnt from text, asked for neighbours and analogies, scored, and mapped."""
