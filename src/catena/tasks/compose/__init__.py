"""Texts from a goal and an agenda: recipes from a title and ingredients. And verse in a form, on a topic."""
