"""What Unisono does, in a minute: a private mean, a refusal, and a model over five hospitals.

Run it with `make demo`. Everything it writes goes to the folder `demo/`.
"""

import shutil
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress

import unisono
from unisono.algorithms.gradient_perturbation import Settings, gradient_perturbation
from unisono.engines import in_process
from unisono.errors import BudgetExceeded

FOLDER = Path("demo")
HOSPITALS = {"Aalborg": 900, "Bergen": 1400, "Cork": 700, "Dresden": 1100, "Evora": 800}
CONSOLE = Console()


def patients(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Made-up patients: age, and four measurements that raise or lower the risk of a disease."""
    generator = np.random.default_rng(seed)
    ages = np.clip(generator.normal(58, 16, count), 18, 100)
    measurements = generator.normal(size=(count, 4))
    rows = np.column_stack([(ages - 58) / 16, measurements, np.ones(count)])
    risk = rows @ np.array([1.2, 0.9, -1.4, 0.0, 0.5, -0.2])
    ill = np.where(generator.random(count) < 1 / (1 + np.exp(-1.7 * risk)), 1.0, -1.0)
    return ages, rows / 4, ill  # public scale: rows longer than 1 are clipped, not measured


def private_mean(ages: np.ndarray) -> None:
    CONSOLE.rule("[bold]1  One hospital, one number")
    book = unisono.open_ledger(FOLDER / "ages.ledger", dataset="ages", epsilon=1.0)
    CONSOLE.print(str(unisono.mean(ages, bounds=(18, 100), epsilon=0.5, ledger=book)))
    CONSOLE.print(f"  (the true mean, which nobody outside sees: {ages.mean():.3f})\n")
    try:
        unisono.mean(ages, bounds=(18, 100), epsilon=0.8, ledger=book)
    except BudgetExceeded as refusal:
        CONSOLE.print(f"[bold]A second question that costs too much:[/] {refusal}\n")


def private_model() -> None:
    CONSOLE.rule("[bold]2  Five hospitals, one model, no trusted server")
    data = [patients(count, seed)[1:] for seed, count in enumerate(HOSPITALS.values(), start=1)]
    study = unisono.Study(
        gradient_perturbation(Settings(epsilon=1.0, delta=1e-6, rounds=60)),
        unisono.Facts(tuple(HOSPITALS.values()), features=6, minimum_survivors=4, colluders=1),
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


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    start = time.perf_counter()
    private_mean(patients(1200, seed=7)[0])
    private_model()
    CONSOLE.rule("[bold]3  Look further")
    CONSOLE.print(
        f"Done in {time.perf_counter() - start:.0f} s. The ledgers and the certificate are in "
        f"{FOLDER}/. Try:\n"
        "  .venv/bin/unisono ledger show demo/Aalborg.ledger\n"
        "  .venv/bin/unisono privacy cost --mechanism gaussian --noise 4 --count 10 --delta 1e-6\n"
        "  .venv/bin/unisono privacy compare --noise 1 --rate 0.01 --count 10000 --delta 1e-5",
        soft_wrap=True,
    )


if __name__ == "__main__":
    main()
