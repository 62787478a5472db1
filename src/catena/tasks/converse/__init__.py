"""Conversation models that retrieve or generate responses."""
