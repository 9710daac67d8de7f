"""`unisono run`."""


def run() -> None:
    """To be written."""
    raise NotImplementedError
