"""Published experiments, run again: every figure beside the numbers that must be seen."""
