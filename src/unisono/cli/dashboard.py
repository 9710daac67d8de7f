"""`unisono dashboard`."""


def dashboard() -> None:
    """To be written."""
    raise NotImplementedError
