"""Taggers on sparse features: templates, the feature dictionary, and the models."""
