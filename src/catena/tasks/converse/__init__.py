"""Conversation: responses that are found, and responses that are written."""
