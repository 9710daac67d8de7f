"""Cryptographic random bits and exact integer noise drawn from them."""

from unisono.core.noise.coins import bernoulli, bernoulli_exp, successes, uniform_below
from unisono.core.noise.counting import poisson, skellam
from unisono.core.noise.gaussian import discrete_gaussian, rounded_gaussian
from unisono.core.noise.keystream import Keystream
from unisono.core.noise.laplace import discrete_laplace
from unisono.core.noise.negative_binomial import discrete_laplace_share, polya
from unisono.core.noise.poisson_sample import poisson_sample, poisson_samples
from unisono.core.noise.share_gap import rounded_share_gap

__all__ = [
    "Keystream",
    "bernoulli",
    "bernoulli_exp",
    "discrete_gaussian",
    "discrete_laplace",
    "discrete_laplace_share",
    "poisson",
    "poisson_sample",
    "poisson_samples",
    "polya",
    "rounded_gaussian",
    "rounded_share_gap",
    "skellam",
    "successes",
    "uniform_below",
]
