"""All experiments by name. Modules are imported only when they are run."""

import ast
import difflib
import importlib
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

from unisono.errors import InvalidInput
from unisono.experiments.findings import Findings

_HERE = "unisono.experiments."

# Figures of Sharma 2019, and the experiments it announced or lacked.
THESIS = {
    "fig4.1": _HERE + "fig4_1",
    "fig4.2": _HERE + "fig4_2",
    "fig4.3": _HERE + "fig4_3",
    "fig4.4": _HERE + "fig4_4",
    "fig4.5": _HERE + "fig4_5",
    "fig4.6": _HERE + "fig4_6",
    "fig4.7": _HERE + "fig4_7",
    "clamp-bias": _HERE + "clamp_bias",
    "dataset-level": _HERE + "dataset_level",
    "hybrid": _HERE + "hybrid",
    "one-shot": _HERE + "one_shot",
}
# What sources 000, 001, 002 and 004 state and never ran.
CONSTRUCTED = {
    "noise-by-dimension": _HERE + "noise_by_dimension",
    "output-or-gradient": _HERE + "output_or_gradient",
    "histogram-accuracy": _HERE + "histogram_accuracy",
    "sgd-bounds": _HERE + "sgd_bounds",
    "composition": _HERE + "composition",
    "laplace-gradients": _HERE + "laplace_gradients",
    "table-1": _HERE + "table_1",
    "printed": _HERE + "printed",
}
# Comparisons on public data, which the user must have: run when they are named.
DATA = {
    "adult-parties": _HERE + "adult_parties",
    "kddcup": _HERE + "kddcup",
}
SYNTHETIC = {**THESIS, **CONSTRUCTED}
EXPERIMENTS = {**SYNTHETIC, **DATA}
GROUPS = {"all": SYNTHETIC, "thesis": THESIS, "constructed": CONSTRUCTED, "data": DATA}
ALIASES = {"bias": "fig4.3"}


def chosen(names: Sequence[str]) -> list[str]:
    """Names of experiments from names, aliases and groups; each once, in the order given.

    >>> chosen(["bias", "fig4.2", "fig4.3"])
    ['fig4.3', 'fig4.2']
    """
    found: dict[str, None] = {}
    for name in names or ["all"]:
        found.update(dict.fromkeys(GROUPS.get(name) or [_known(name)]))
    return list(found)


def experiment(name: str) -> Callable[[bool], Findings]:
    """The function that runs one experiment."""
    run: Callable[[bool], Findings] = importlib.import_module(EXPERIMENTS[_known(name)]).run
    return run


def require_data(names: Sequence[str]) -> None:
    """Refuse, before anything runs, where an experiment's files are not on this machine."""
    for name in names:
        if name in DATA:
            importlib.import_module(DATA[name]).check()


def summary(name: str) -> str:
    """The first line of the experiment's own description, read without importing it."""
    module = importlib.util.find_spec(EXPERIMENTS[_known(name)])
    if module is None or module.origin is None:
        return "(missing from this installation)"
    text = ast.get_docstring(ast.parse(Path(module.origin).read_text(encoding="utf-8"))) or name
    return text.split("\n", 1)[0]


def _known(name: str) -> str:
    name = ALIASES.get(name, name)
    if name in EXPERIMENTS:
        return name
    everything = [*EXPERIMENTS, *ALIASES, *GROUPS]
    near = difflib.get_close_matches(name, everything, 1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise InvalidInput(
        f"there is no experiment {name!r}: {hint}choose from " + ", ".join(everything)
    )
