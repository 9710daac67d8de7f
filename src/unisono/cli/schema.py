"""`unisono schema`."""


def schema() -> None:
    """To be written."""
    raise NotImplementedError
