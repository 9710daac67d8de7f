"""The oldest versions that pyproject.toml allows, as constraints for pip: `name==version` lines.

Flower's extra is not among them: it holds several of these libraries at newer versions, and the
usual suite runs with it.
"""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def lowest(line: str) -> str:
    """`jax>=0.10,<0.11` becomes `jax==0.10`; a range without an oldest version is an error."""
    requirement = Requirement(line)
    oldest = [one.version for one in requirement.specifier if one.operator in (">=", "==")]
    if len(oldest) != 1:
        raise ValueError(f"{line} states no oldest version: write it as name>=oldest,<untested")
    return f"{requirement.name}=={oldest[0]}"


if __name__ == "__main__":
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    for dependency in (*project["dependencies"], *project["optional-dependencies"]["test"]):
        print(lowest(dependency))
