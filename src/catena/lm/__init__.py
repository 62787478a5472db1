"""Models that give p(next | prefix)."""
