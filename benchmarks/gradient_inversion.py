"""Gradient inversion on digits (64-256-10): error, seconds, defences, and a peer in PyTorch.

    python benchmarks/gradient_inversion.py [--peer path/to/python] [--quick] [--parts ...]

Images of scikit-learn's digits, grey values in [0, 1], He's or Glorot's random weights, 32-bit
updates. Errors are relative l2, matched by assignment, averaged over a batch; the baseline guesses
the mean of the public training images. `first` is the wall time of the first batch, compilation
included, and `later` that of the others; on a machine that others use the processor's seconds are
the better guide. Peers run the attack of Zhu et al. (2019) in a Python that has torch (--peer or
UNISONO_PEER_PYTHON), on the same weights and batches, on one core like ours.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import jax
import jax.numpy as jnp
import numpy as np

import figures
from datasets import digits
from unisono.attacks import closed_form
from unisono.attacks.defences import (
    ClippingDefence,
    Defence,
    DpSgd,
    Dropout,
    GradientNoise,
    LocalStepsDefence,
    Nothing,
    Pruning,
    SecureSum,
)
from unisono.attacks.gradient_inversion import (
    InversionSettings,
    Inverted,
    invert,
    invert_without_labels,
)
from unisono.attacks.scoring import match, mean_baseline
from unisono.attacks.victim import Seen, Victim, attacker_model
from unisono.problems.networks import mlp

SCORECARD = figures.Benchmark(
    quick=("--quick", "--parts", "plain", "peer"), seconds=5400, peer="torch"
)

PEER = Path(__file__).with_name("gradient_inversion_torch.py")
FEATURES, HIDDEN, CLASSES, SIDE = 64, 256, 10, 8
UNITS = ("dense1", "weights")
DELTA = 1e-5
BOX = InversionSettings(low=0.0, high=1.0)
SHAPES = {"tanh": jnp.tanh, "gelu": jax.nn.gelu, "relu": jax.nn.relu}


class Task(NamedTuple):
    """A network with an activation, and one batch."""

    victim: Victim
    scores: Any


def tasks(data: Any, activation: str, batch: int, count: int) -> list[Task]:
    shape = SHAPES[activation]

    def scores(parameters: Any, rows: Any) -> Any:
        first, second = parameters["dense0"], parameters["dense1"]
        hidden = shape(rows @ first["weights"] + first["bias"])
        return hidden @ second["weights"] + second["bias"]

    def loss(parameters: Any, record: Any) -> Any:
        row, label = record
        truth = jax.nn.one_hot(label.astype(jnp.int32), CLASSES)
        return -jnp.sum(truth * jax.nn.log_softmax(scores(parameters, row)))

    start = mlp(FEATURES, (HIDDEN,), CLASSES, "tanh" if activation == "tanh" else "relu").init
    found = []
    for seed in range(count):
        drawn = np.random.default_rng(seed).choice(len(data.test), batch, replace=False)
        rows, labels = data.test[drawn] / 16, data.test_labels[drawn]
        parameters = jax.tree.map(np.asarray, start(jax.random.key(seed)))
        victim = Victim(loss, parameters, rows.astype(np.float32), labels.astype(np.float32))
        found.append(Task(victim, scores))
    return found


def without_labels(task: Task, seen: Seen, public: np.ndarray) -> Inverted:
    victim = task.victim
    model = attacker_model(victim.loss, victim.parameters, seen, len(victim.rows))

    def probabilities(rows: Any) -> Any:
        return jax.nn.softmax(task.scores(victim.parameters, jnp.asarray(rows)))

    bias = seen.update["dense1"]["bias"]
    return invert_without_labels(model, bias, probabilities, FEATURES, BOX, public[:200])


def plain_gradients(data: Any, count: int, public: np.ndarray) -> None:
    print("attack on a plain gradient, labels unknown")
    print(f"  {'':6}{'B':>3}{'median':>10}{'worst':>10}{'first s':>9}{'later s':>9}{'cpu s':>7}")
    for activation in ("tanh", "gelu"):
        for batch in (1, 4, 8):
            errors, walls, cpus = [], [], []
            for task in tasks(data, activation, batch, count):
                seen = Nothing().observe(task.victim, np.random.default_rng(0))
                wall, cpu = time.perf_counter(), time.process_time()
                found = without_labels(task, seen, public)
                walls.append(time.perf_counter() - wall)
                cpus.append(time.process_time() - cpu)
                errors.append(match(found.rows, task.victim.rows).error)
            print(
                f"  {activation:6}{batch:>3}{np.median(errors):>10.1e}{max(errors):>10.1e}"
                f"{walls[0]:>9.2f}{np.median(walls[1:]):>9.2f}{np.median(cpus):>7.2f}"
            )
            figures.report(
                f"gradient inversion, {activation}, {batch} records",
                np.median(errors),
                "relative error",
                lower=True,
            )


def relu(data: Any, count: int) -> None:
    print("relu, 4 records: rows that two hidden units agree on, and gradient inversion by Adam")
    closed, searched = [], []
    for task in tasks(data, "relu", 4, count):
        seen = Nothing().observe(task.victim, np.random.default_rng(0))
        layer = seen.update["dense0"]
        alone = closed_form.lone_records(layer["weights"], layer["bias"])
        closed.append(match(alone, task.victim.rows).error if len(alone) else 1.0)
        model = attacker_model(task.victim.loss, task.victim.parameters, seen, 4)
        settings = InversionSettings(low=0.0, high=1.0, optimiser="adam", steps=1500)
        labels = np.sort(task.victim.targets)
        found = invert(model, labels, FEATURES, settings)
        searched.append(match(found.rows, task.victim.rows).error)
    print(f"  closed form  errors {_listed(closed)}")
    print(f"  inversion    errors {_listed(searched)}")


def defences(data: Any, public: np.ndarray, labels: np.ndarray) -> None:
    batch = 4
    (task,) = tasks(data, "tanh", batch, 1)
    victim, records = task.victim, len(public)
    table: list[Defence] = [
        Nothing(),
        LocalStepsDefence(5, 0.1),
        LocalStepsDefence(4, 0.1, fresh=True),
        GradientNoise(1e-4),
        GradientNoise(1e-2),
        ClippingDefence(0.1),
        ClippingDefence(0.1, "record"),
        Dropout(0.5, UNITS),
        Dropout(0.5, UNITS, "record"),
        Pruning(0.3),
        Pruning(0.05),
        SecureSum(2, (public, labels)),
        DpSgd(1.0, 0.61, batch),
    ]
    baseline = mean_baseline(public, victim.rows).error
    print(f"defences, tanh, {batch} records, labels known; the mean image errs by {baseline:.3f}")
    print("  epsilon of one round, by somebody who knows who took part")
    print(f"  {'':36}{'adaptive':>10}{'naive':>10}{'epsilon':>9}")
    for defence in table:
        seen = defence.observe(victim, np.random.default_rng(1))
        errors = []
        for adaptive in (True, False):
            model = attacker_model(victim.loss, victim.parameters, seen, batch, adaptive=adaptive)
            targets = victim.targets
            if model.records > batch:
                drawn = np.random.default_rng(1).choice(records, batch, replace=False)
                targets = np.concatenate([targets, labels[drawn]])
            found = invert(model, targets, FEATURES, BOX)
            errors.append(match(found.rows, victim.rows).error)
        epsilon = defence.epsilon(DELTA, batch, 1)
        print(f"  {defence.name:36}{errors[0]:>10.1e}{errors[1]:>10.1e}{epsilon:>9.2f}", flush=True)


def private(data: Any, public: np.ndarray, labels: np.ndarray, count: int) -> None:
    """Every attack on DP-SGD at epsilon 8: the ratio of its error to the mean image's."""
    image = (SIDE, SIDE)
    searches = {
        "l2, L-BFGS": BOX,
        "l2, Adam": InversionSettings(low=0.0, high=1.0, optimiser="adam", steps=500),
        "cosine and smoothness": InversionSettings(
            low=0.0, high=1.0, distance="cosine", smoothness=0.1, image=image
        ),
    }
    means = np.stack([public[labels == c].mean(axis=0) for c in range(CLASSES)])
    for batch in (1, 8):
        defence = DpSgd(1.0, 0.61, batch)
        epsilon = defence.epsilon(DELTA, batch, 1)
        print(f"DP-SGD at epsilon {epsilon:.2f} in one round, {batch} record(s): errors over the")
        print(
            "  mean image's (smallest and mean over batches; below 1 the attack learned something)"
        )
        ratios: dict[str, list[float]] = {}
        for number, task in enumerate(tasks(data, "tanh", batch, count)):
            victim = task.victim
            seen = defence.observe(victim, np.random.default_rng(number))
            baseline = mean_baseline(public, victim.rows).error
            found = {
                name: invert(
                    attacker_model(victim.loss, victim.parameters, seen, batch),
                    victim.targets,
                    FEATURES,
                    settings,
                ).rows
                for name, settings in searches.items()
            }
            layer = seen.update["dense0"]
            if batch == 1:
                quotient = closed_form.one_record(layer["weights"], layer["bias"])
                found["closed form"] = quotient[None]
            guessed = closed_form.labels(seen.update["dense1"]["bias"], batch)
            found["means of guessed labels"] = means[guessed]
            blind = np.random.default_rng(number).integers(CLASSES, size=batch)
            found["means of random labels (blind)"] = means[blind]
            for name, rows in found.items():
                ratio = match(np.clip(rows, 0, 1), victim.rows).error / baseline
                ratios.setdefault(name, []).append(ratio)
        for name, values in ratios.items():
            print(f"  {name:36}{min(values):>8.2f}{np.mean(values):>8.2f}", flush=True)


def peer(data: Any, python: str | None, count: int, cases: Sequence[tuple[str, int]]) -> None:
    if not python:
        print("skipped the peer: name a Python that has torch by --peer")
        figures.missing("DLG in PyTorch", "python -m venv peer && peer/bin/pip install torch numpy")
        return
    print(
        "the classic attack in PyTorch (DLG, L-BFGS), 64 bits, one core, same weights and batches"
    )
    print(f"  {'':6}{'B':>3}  {'method':28}{'median':>10}{'worst':>10}{'wall s':>9}{'cpu s':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for activation, batch in cases:
            path = Path(folder) / f"{activation}{batch}.npz"
            _save(path, tasks(data, activation, batch, count))
            run = subprocess.run(
                [python, str(PEER), str(path), activation], capture_output=True, text=True
            )
            if run.returncode:
                print(f"  skipped: {run.stderr.strip().splitlines()[-1:]}")
                return
            for line in run.stdout.splitlines():
                found = json.loads(line)
                truth = [task.victim.rows for task in tasks(data, activation, batch, count)]
                errors = [
                    match(np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0), own).error
                    for rows, own in zip(np.array(found["rows"]), truth, strict=True)
                ]
                print(
                    f"  {activation:6}{batch:>3}  {found['method']:28}{np.median(errors):>10.1e}"
                    f"{max(errors):>10.1e}{np.median(found['wall']):>9.2f}"
                    f"{np.median(found['cpu']):>7.2f}"
                )


def _save(path: Path, found: list[Task]) -> None:
    victims = [task.victim for task in found]
    np.savez(
        path,
        rows=[v.rows for v in victims],
        targets=[v.targets for v in victims],
        **{
            f"{layer}_{name}": [v.parameters[layer][name] for v in victims]
            for layer in ("dense0", "dense1")
            for name in ("weights", "bias")
        },
    )


def _listed(values: list[float]) -> str:
    return " ".join(f"{value:.1e}" for value in values)


def smoke() -> dict[str, float]:
    """The record of a batch of one, in closed form."""
    (task,) = tasks(digits(), "tanh", 1, 1)
    seen = Nothing().observe(task.victim, np.random.default_rng(0))
    first = seen.update["dense0"]
    unit = int(np.argmax(np.abs(first["bias"])))
    row = np.asarray(first["weights"])[:, unit] / np.asarray(first["bias"])[unit]
    return {"error": match(row[None], task.victim.rows).error}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", default=os.environ.get("UNISONO_PEER_PYTHON"))
    parser.add_argument("--quick", action="store_true", help="3 batches, peers with tanh")
    names = ("plain", "relu", "defences", "private", "peer")
    parser.add_argument("--parts", nargs="*", choices=names, help="all unless told")
    choices = figures.options(parser, smoke, ("torch",))
    count = 3 if choices.quick else 10
    cases = (("tanh", 1), ("tanh", 8)) if choices.quick else (("tanh", 1), ("gelu", 8), ("tanh", 8))
    data = digits()
    public, labels = data.train / 16, data.train_labels.astype(float)
    parts = {
        "plain": lambda: plain_gradients(data, count, public),
        "relu": lambda: relu(data, count),
        "defences": lambda: defences(data, public, labels),
        "private": lambda: private(data, public, labels, count),
        "peer": lambda: peer(data, choices.peer, 1 if choices.quick else 3, cases),
    }
    for name in choices.parts or parts:
        parts[name]()


if __name__ == "__main__":
    main()
