"""Unisono: many parties, one model, and no voice that can be picked out."""
