"""`unisono report`."""


def report() -> None:
    """To be written."""
    raise NotImplementedError
