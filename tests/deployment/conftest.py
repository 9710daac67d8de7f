"""Typer 0.20 imports names that Click 8.5 deprecates; that is theirs to mend, not a fault of ours.

Importing it once here, with that one warning silenced, keeps warnings as errors everywhere else.
"""

import warnings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message=r".*removed in Click 9", category=DeprecationWarning)
    import typer
    import typer.testing  # noqa: F401
