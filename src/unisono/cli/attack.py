"""`unisono attack`."""


def attack() -> None:
    """To be written."""
    raise NotImplementedError
