"""Regression: numbers predicted from texts and from columns of numbers."""
