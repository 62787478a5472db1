"""Taggers on sparse features: templates, their dictionary, and the models that weigh them."""
