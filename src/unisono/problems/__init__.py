"""Losses, links and likelihoods: the mathematics of models, without privacy."""
