"""Trained models in the forms of other programs, which run them without this package."""
