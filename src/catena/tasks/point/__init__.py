"""Pointing at parts of the input: orders, hulls, triangles, round trips, or what one's own data has."""
