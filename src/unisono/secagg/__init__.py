"""Sums that open only as a whole."""
