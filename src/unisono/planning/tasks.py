"""What people want to learn, as a plan names it."""

from enum import StrEnum


class Task(StrEnum):
    """What is learned; it decides which algorithms compete and how their answers are judged."""

    MEAN = "mean"
    CLASSIFICATION = "classification"
    REGRESSION = "regression"
    NETWORK = "network"
    POSTERIOR = "posterior"


__all__ = ["Task"]
