"""Examples per second of private network training: ours, Opacus, JAX Privacy, by hand, no privacy.

    python benchmarks/networks.py [--peer path/to/python] [--quick] [--models mlp conv logistic]

Three models (dense 784-256-10; the convolutional network of Opacus's MNIST example; logistic
regression on 100 columns) with SGD, batches of 600 of 60,000 records (480 of 48,000). The peers of
PyTorch run in the Python named by --peer (or UNISONO_PEER_PYTHON) that has torch and opacus;
without it the reason is printed. Every side runs on one core (--cores), so that processor seconds
count work and not threads that wait in a loop; on a machine that others use they are the better
guide, and the aims are judged by them. Peak memory is that of a fresh process per method.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import figures
from networks_common import TASKS, shrink

SCORECARD = figures.Benchmark(quick=("--quick", "--models", "logistic"), seconds=5400, peer="torch")

HERE = Path(__file__).parent
SIDES = {
    "networks_peer_jax.py": (
        "ours",
        "ours+noise",
        "nonprivate",
        "vmap",
        "vmap+noise",
        "jaxprivacy",
        "jaxprivacy+noise",
        "numpy",
        "numpy+noise",
    ),
    "networks_peer_torch.py": (
        "sgd",
        "hooks",
        "hooks+noise",
        "hooks-loader+noise",
        "functorch+noise",
        "ghost",
        "ghost+noise",
    ),
}
SLOW = ("vmap", "jaxprivacy", "jaxprivacy+noise", "hooks", "hooks-loader+noise", "functorch+noise")
TITLES = {
    "ours": "ours",
    "nonprivate": "no privacy, JAX",
    "vmap": "vmap of grad, JAX",
    "jaxprivacy": "JAX Privacy, clipped_grad",
    "numpy": "norms by hand, NumPy",
    "sgd": "no privacy, PyTorch",
    "hooks": "Opacus, hooks",
    "hooks-loader": "Opacus, hooks and its loader",
    "functorch": "Opacus, functorch",
    "ghost": "Opacus, ghost clipping",
}
INSTALL = "python -m venv peer && peer/bin/pip install torch==2.13.0 opacus==1.6.0 numpy"
Found = dict[str, dict[str, Any]]


class Aim(NamedTuple):
    """A quantity of `above` over that of `below`: at least, or at most, the bound; `small` is that
    of the model whose steps are so short that a round's fixed costs decide."""

    text: str
    above: str
    below: str
    bound: float
    least: bool
    quantity: str = "processor"
    small: float | None = None

    def bound_of(self, model: str) -> float:
        return self.bound if self.small is None or model != "logistic" else self.small


AIMS = (
    Aim("times faster than Opacus hooks", "hooks+noise", "ours+noise", 40, True),
    Aim("times faster than Opacus ghost", "ghost+noise", "ours+noise", 1.5, True),
    Aim("times faster than vmap of grad", "vmap+noise", "ours+noise", 10, True),
    Aim("times NumPy by hand (on a par)", "numpy+noise", "ours+noise", 0.9, True),
    Aim("of non-private time, no noise", "ours", "nonprivate", 1.25, False, small=2.0),
    Aim("of non-private time, with noise", "ours+noise", "nonprivate", 1.5, False, small=2.0),
    Aim("of non-private peak memory", "ours+noise", "nonprivate", 1.3, False, "memory"),
)


def side(python: str, script: str, cores: int, *options: str) -> list[dict[str, Any]] | str:
    """What one side prints, or why it prints nothing."""
    allowed = sorted(os.sched_getaffinity(0))[-cores:]
    command = [python, str(HERE / script), *options]
    try:
        run = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
            preexec_fn=lambda: os.sched_setaffinity(0, allowed),  # threads are counted from this
        )
    except (OSError, subprocess.TimeoutExpired) as reason:
        return f"{type(reason).__name__}: {reason}"
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    if run.returncode or not lines:
        return ((run.stderr if run.returncode else run.stdout).strip().splitlines() or ["?"])[-1]
    return lines


def compare(model: str, arguments: argparse.Namespace) -> Found:
    """Every method's seconds per step and peak memory, and a printed reason for each gap."""
    found: Found = {}
    pythons = {"networks_peer_jax.py": sys.executable, "networks_peer_torch.py": arguments.peer}
    for script, methods in SIDES.items():
        if pythons[script] is None:
            print("PyTorch: not measured: name a Python with torch and opacus with --peer")
            continue
        chosen = [m for m in methods if not (arguments.quick and m in SLOW)]
        seconds, repeats = (0.7, 3) if arguments.quick else (2.0, 5)
        common = (pythons[script], script, arguments.cores, f"--model={model}")
        times = side(*common, f"--seconds={seconds}", f"--repeats={repeats}", "--methods", *chosen)
        if isinstance(times, str):
            print(f"{script}: not measured: {times}")
            continue
        found |= {line["method"]: line for line in times if "processor" in line}
        for method in chosen:
            wanted = not arguments.quick or method in ("ours+noise", "nonprivate")
            if method in found and wanted:
                peak = side(*common, "--memory", "--methods", method)
                if isinstance(peak, str):
                    print(f"{method}: memory not measured: {peak}")
                else:
                    found[method]["memory"] = peak[0]["memory"]
    return found


def table(model: str, found: Found) -> None:
    batch = TASKS[model].batch
    print(f"{'':<38}{'examples per second of':>26}{'peak':>10}{'times':>10}{'spread':>9}")
    print(f"{'method':<38}{'processor':>13}{'wall clock':>13}{'MB':>10}{'ours':>10}{'%':>9}")
    for name, line in found.items():
        method, _, noise = name.partition("+")
        title = TITLES[method] + (", with noise" if noise else "")
        own = found.get("ours+noise" if noise else "ours", {}).get("processor")
        memory = f"{line['memory']:,.0f}" if "memory" in line else "-"
        print(
            f"{title:<38}{batch / line['processor']:>13,.0f}{batch / line['wall']:>13,.0f}"
            f"{memory:>10}{line['processor'] / own if own else float('nan'):>10.2f}"
            f"{100 * line['spread']:>9.0f}"
        )


def verdicts(model: str, found: Found) -> None:
    for aim in AIMS:
        parts = [found.get(name, {}).get(aim.quantity) for name in (aim.above, aim.below)]
        if None in parts:
            print(f"  not measured  {aim.text}")
            if "Opacus" in aim.text and not any(name.startswith("sgd") for name in found):
                figures.missing("Opacus", INSTALL)
            side = TITLES[(aim.above if aim.least else aim.below).partition("+")[0]]
            why = "left to the full form, or a side that is missing"
            figures.unmeasured(f"{model}: {aim.text}", why, aim=aim.bound, peer=side)
            continue
        ratio, bound = parts[0] / parts[1], aim.bound_of(model)
        reached = ratio >= bound if aim.least else ratio <= bound
        words = "at least" if aim.least else "at most"
        print(
            f"{ratio:>14.2f}  {aim.text} (aim: {words} {bound:g}): "
            f"{'reached' if reached else 'MISSED'}"
        )
        title = TITLES[(aim.above if aim.least else aim.below).partition("+")[0]]
        figures.report(
            f"{model}: {aim.text}",
            ratio,
            "times",
            aim=bound,
            peer=title,
            lower=not aim.least,
            ratio=True,
            ours=parts[1 if aim.least else 0],
            theirs=parts[0 if aim.least else 1],
            measure="s" if aim.quantity == "processor" else "MB",
        )


def smoke() -> dict[str, float]:
    """One chunk of our own training of a tiny model."""
    import networks_ours

    shrink()
    networks_ours.ROUNDS["logistic"] = 4
    began = time.perf_counter()
    networks_ours.ours("logistic", TASKS["logistic"].chunk, noise=True)
    return {"seconds with compilation": time.perf_counter() - began}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--peer", default=os.environ.get("UNISONO_PEER_PYTHON"))
    parser.add_argument("--models", nargs="*", choices=TASKS, default=list(TASKS))
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="shorter, without the slowest peers")
    arguments = figures.options(parser, smoke, ("torch", "opacus", "jax_privacy"))
    for model in arguments.models:
        task = TASKS[model]
        shape, load = f"{task.records:,} records of shape {task.shape}", os.getloadavg()[0]
        title = f"{model}: {shape}, batches of {task.batch}; {arguments.cores} core(s)"
        print(f"\n{title}, load {load:.1f}", flush=True)
        found = compare(model, arguments)
        table(model, found)
        verdicts(model, found)
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
