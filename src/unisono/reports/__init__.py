"""Runs as pages: what was learned, what was promised, and against whom."""
