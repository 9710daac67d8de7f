"""`unisono check`."""


def check() -> None:
    """To be written."""
    raise NotImplementedError
