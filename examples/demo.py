"""What Unisono does, in a minute: a private mean, a refusal, a model, and a study with a report.

Run it with `make demo`. Everything it writes goes to the folder `demo/`.
"""

import runpy
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress

import unisono
from unisono.algorithms.gradient_perturbation import GRADIENT_PERTURBATION
from unisono.engines import in_process
from unisono.errors import BudgetExceeded
from unisono.problems.linear import LinearLoss

FOLDER = Path("demo")
HOSPITALS = {"Aalborg": 900, "Bergen": 1400, "Cork": 700, "Dresden": 1100, "Evora": 800}
CONSOLE = Console()


def patients(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Synthetic patients: age, and four measurements that raise or lower the risk of a disease."""
    generator = np.random.default_rng(seed)
    ages = np.clip(generator.normal(58, 16, count), 18, 100)
    measurements = generator.normal(size=(count, 4))
    rows = np.column_stack([(ages - 58) / 16, measurements, np.ones(count)])
    risk = rows @ np.array([1.2, 0.9, -1.4, 0.0, 0.5, -0.2])
    ill = np.where(generator.random(count) < 1 / (1 + np.exp(-1.7 * risk)), 1.0, -1.0)
    return ages, rows / 4, ill  # public scale: rows longer than 1 are clipped, not measured


def private_mean(ages: np.ndarray) -> None:
    CONSOLE.rule("[bold]1  One hospital, one number")
    ledger = unisono.open_ledger(FOLDER / "ages.ledger", dataset="ages", epsilon=1.0)
    CONSOLE.print(str(unisono.mean(ages, bounds=(18, 100), epsilon=0.5, ledger=ledger)))
    CONSOLE.print(f"  (the true mean, which nobody outside sees: {ages.mean():.3f})\n")
    try:
        unisono.mean(ages, bounds=(18, 100), epsilon=0.8, ledger=ledger)
    except BudgetExceeded as refusal:
        CONSOLE.print(f"[bold]A second question that costs too much:[/] {refusal}\n")


def private_model() -> None:
    CONSOLE.rule("[bold]2  Five hospitals, one model, no trusted server")
    data = [patients(count, seed)[1:] for seed, count in enumerate(HOSPITALS.values(), start=1)]
    privacy = unisono.Privacy(epsilon=1.0, delta=1e-6)
    study = unisono.Study(
        GRADIENT_PERTURBATION.method(LinearLoss("logistic"), privacy, rounds=60),
        unisono.Facts(tuple(HOSPITALS.values()), features=6, minimum_parties=4, colluders=1),
        unisono.Trust.SECURE_SUM,
    )
    parties = [
        unisono.Party(
            name,
            unisono.Private(columns),
            unisono.Ledger.create(
                FOLDER / f"{name}.ledger",
                unisono.Policy(name, unisono.Budget(2.0, 1e-6)),
                unisono.ACCOUNTANT,
            ),
        )
        for name, columns in zip(HOSPITALS, data, strict=True)
    ]
    with Progress(console=CONSOLE, transient=True) as bar:
        task = bar.add_task("rounds", total=study.algorithm.rounds)
        result = in_process.run(
            study, parties, progress=lambda done: bar.update(task, completed=done)
        )
    _, rows, ill = patients(4000, seed=99)
    accuracy = np.mean(np.sign(rows @ result.value) == ill)
    CONSOLE.print(f"Accuracy on 4,000 new patients: [bold]{100 * accuracy:.1f} %[/]")
    CONSOLE.print(result.certificate.text(), "\n", highlight=False, soft_wrap=True)
    result.certificate.save(str(FOLDER / "certificate.json"))


def private_study() -> None:
    CONSOLE.rule("[bold]3  A study in a file: real records, a test, and a report for people")
    make_data = Path(__file__).parent / "hospitals" / "make_data.py"
    runpy.run_path(str(make_data))["main"](FOLDER / "hospitals")
    command = ["run", str(FOLDER / "hospitals/study.toml"), "--data", str(FOLDER / "hospitals")]
    CONSOLE.print(f"[bold]unisono {' '.join(command)}[/]")
    subprocess.run([sys.executable, "-m", "unisono", *command], check=True)


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    start = time.perf_counter()
    private_mean(patients(1200, seed=7)[0])
    private_model()
    private_study()
    CONSOLE.rule("[bold]4  Look further")
    CONSOLE.print(
        f"Done in {time.perf_counter() - start:.0f} s. Everything is in {FOLDER}/; open "
        f"{FOLDER}/hospitals/study.run/report.html in a browser. Then:\n"
        "  source .venv/bin/activate\n"
        "  unisono dashboard demo                       look at the run\n"
        "  unisono ledger show demo/Aalborg.ledger      what one hospital has spent\n"
        "  unisono plan demo/hospitals/study.toml       would less epsilon do?\n"
        "  unisono attack                               try to get records back",
        soft_wrap=True,
    )


if __name__ == "__main__":
    main()
