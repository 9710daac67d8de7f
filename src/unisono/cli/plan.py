"""`unisono plan`."""


def plan() -> None:
    """To be written."""
    raise NotImplementedError
