"""Answers to questions as spans of texts."""
