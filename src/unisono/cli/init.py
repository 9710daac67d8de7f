"""`unisono init`."""


def init() -> None:
    """To be written."""
    raise NotImplementedError
