"""The classic gradient inversion in PyTorch (DLG: Zhu, Liu and Han 2019), for comparison.

    peer/bin/python benchmarks/gradient_inversion_torch.py batches.npz tanh

Dummy images and dummy label logits start at normals; L-BFGS lowers the squared distance between
their gradient and the one seen. As published: rate 1, 300 outer iterations, no line search. To its
advantage it gets 64 bits, a variant with a line search, one with known labels (Zhao et al. 2020),
and two starts, of which the one that fits best counts. After 30 seconds a batch is given up. Prints
a JSON line per method.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import figures

try:
    import torch
    from torch.nn import functional
except ImportError:
    figures.without_peer(__doc__, "torch", "run it in an environment that has it", code=1)

OUTER, STARTS, FITS = 300, 2, 1e-12
LIMIT = 30.0  # seconds of processor time for one batch; then the best so far counts
SHAPES: dict[str, Callable[..., Any]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "gelu": lambda x: functional.gelu(x, approximate="tanh"),
}
METHODS = {
    "line search, labels known": ("strong_wolfe", True),
    "as published": (None, False),
    "line search": ("strong_wolfe", False),
}


def gradient(
    parameters: list[Any], shape: Any, rows: Any, truth: Any, differentiable: bool
) -> list[Any]:
    first, bias, second, last = parameters
    scores = shape(rows @ first + bias) @ second + last
    loss = -(truth * functional.log_softmax(scores, dim=1)).sum(dim=1).mean()
    return list(torch.autograd.grad(loss, parameters, create_graph=differentiable))


def attack(
    parameters: list[Any],
    shape: Any,
    seen: list[Any],
    batch: int,
    line_search: str | None,
    labels: Any | None,
) -> Any:
    begin, size = time.process_time(), sum((leaf**2).sum() for leaf in seen)
    best, lowest = None, float("inf")
    for start in range(STARTS):
        torch.manual_seed(start)
        rows = torch.randn(batch, parameters[0].shape[0], requires_grad=True)
        logits = torch.randn(batch, parameters[3].shape[0], requires_grad=True)
        unknown = [rows] if labels is not None else [rows, logits]
        # PyTorch's own tolerances stop a search at a distance of 1e-9.
        exact = {"tolerance_grad": 1e-14, "tolerance_change": 1e-18} if line_search else {}
        optimiser = torch.optim.LBFGS(unknown, lr=1.0, line_search_fn=line_search, **exact)

        def closure(rows: Any = rows, logits: Any = logits, optimiser: Any = optimiser) -> Any:
            optimiser.zero_grad()
            truth = labels if labels is not None else functional.softmax(logits, dim=1)
            sent = gradient(parameters, shape, rows, truth, True)
            far = sum(((a - b) ** 2).sum() for a, b in zip(sent, seen, strict=True)) / size
            far.backward()
            return far

        height = float("inf")
        for _ in range(OUTER):
            before, height = height, float(optimiser.step(closure).detach())
            late = time.process_time() - begin > LIMIT
            if not np.isfinite(height) or height < FITS or height == before or late:
                break
        if best is None or height < lowest:
            best, lowest = rows.detach().numpy().copy(), height
        if lowest < FITS or time.process_time() - begin > LIMIT:
            break
    return best


def main() -> None:
    if sys.argv[1:] == ["--smoke"]:
        figures.smoked({"threads": torch.get_num_threads()}, ("torch",))
        return
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    data, shape = np.load(sys.argv[1]), SHAPES[sys.argv[2]]
    names = ("dense0_weights", "dense0_bias", "dense1_weights", "dense1_bias")
    for method, (line_search, known) in METHODS.items():
        found, wall, cpu = [], [], []
        for number, rows in enumerate(data["rows"]):
            parameters = [
                torch.tensor(data[name][number], dtype=torch.float64, requires_grad=True)
                for name in names
            ]
            labels = torch.tensor(data["targets"][number], dtype=torch.int64)
            truth = functional.one_hot(labels, parameters[3].shape[0]).double()
            given = torch.tensor(rows, dtype=torch.float64)
            seen = [g.detach() for g in gradient(parameters, shape, given, truth, False)]
            begin, used = time.perf_counter(), time.process_time()
            best = attack(parameters, shape, seen, len(rows), line_search, truth if known else None)
            wall.append(time.perf_counter() - begin)
            cpu.append(time.process_time() - used)
            found.append(best.tolist())
        print(json.dumps({"method": method, "rows": found, "wall": wall, "cpu": cpu}), flush=True)


if __name__ == "__main__":
    main()
