"""Sequence to sequence: a source is read as a whole, and a target is predicted from left to right."""
