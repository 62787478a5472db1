"""Convex hulls, triangulations and shortest tours of points in the plane."""
