"""Candidates are built by the command line's own code; see tests/cli/conftest.py for the warning
that importing Typer gives once."""

import warnings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message=r".*removed in Click 9", category=DeprecationWarning)
    import typer  # noqa: F401
