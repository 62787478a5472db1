"""Texts into classes."""
