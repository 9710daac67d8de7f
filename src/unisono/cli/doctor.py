"""`unisono doctor`."""


def doctor() -> None:
    """To be written."""
    raise NotImplementedError
