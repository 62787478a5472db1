"""Dependency trees, projective and non-projective."""
