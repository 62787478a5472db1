"""Sentences into dependency trees."""
