"""Flower's command-line library warns about itself when it is first imported."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import typer  # noqa: F401
