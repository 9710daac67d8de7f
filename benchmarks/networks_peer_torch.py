"""The PyTorch side of the network benchmark: plain SGD, and Opacus in its three modes.

    peer/bin/python benchmarks/networks_peer_torch.py [--model mlp] [--methods hooks ghost+noise]

    python -m venv peer && peer/bin/pip install torch==2.13.0 opacus==1.6.0

Private batches are Poisson samples. Opacus's own loader collates record by record; to its
advantage the other methods draw one mask and index the tensors, and `hooks-loader` shows what its
documentation's loop costs. Its accountant's step hook is left in place.
"""

import sys
import warnings
from collections.abc import Iterator

import figures
from networks_common import CLIP, NOISE, RATE, TASKS, Prepare, Run, data, serve

try:
    import torch
    from opacus import PrivacyEngine
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset
except ImportError:
    figures.without_peer(__doc__, "torch, opacus", "run it in an environment that has them")


def network(model: str) -> nn.Module:
    """`conv` is the network of Opacus's MNIST example."""
    if model == "mlp":
        return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    if model == "logistic":
        return nn.Sequential(nn.Linear(100, 2))
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Flatten(),
        nn.Linear(512, 32),
        nn.ReLU(),
        nn.Linear(32, 10),
    )


def tensors(model: str) -> TensorDataset:
    features, labels = data(model)
    if model == "conv":
        features = features.transpose(0, 3, 1, 2)
    return TensorDataset(torch.from_numpy(features.copy()), torch.from_numpy(labels).long())


def sgd(model: str, noise: bool) -> Run:
    """Without privacy; batches of exactly the expected size."""
    task, (features, labels) = TASKS[model], tensors(model).tensors
    module, criterion = network(model), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE)

    def run(steps: int) -> None:
        for _ in range(steps):
            chosen = torch.randint(task.records, (task.batch,))
            optimizer.zero_grad()
            criterion(module(features[chosen]), labels[chosen]).backward()
            optimizer.step()

    return run


def opacus(mode: str, loader: bool = False) -> Prepare:
    """Opacus's engine in one of its modes, with its own loader or with one mask per step."""

    def prepare(model: str, noise: bool) -> Run:
        task, records = TASKS[model], tensors(model)
        plain = network(model)
        answer = PrivacyEngine().make_private(
            module=plain,
            optimizer=torch.optim.SGD(plain.parameters(), lr=RATE),
            criterion=nn.CrossEntropyLoss(),
            data_loader=DataLoader(records, batch_size=task.batch),
            noise_multiplier=NOISE if noise else 0.0,
            max_grad_norm=CLIP,
            grad_sample_mode=mode,
        )
        module, optimizer, batches = answer[0], answer[1], answer[-1]
        criterion = answer[2] if mode == "ghost" else nn.CrossEntropyLoss()
        features, labels = records.tensors

        def masked() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
            while True:
                chosen = (torch.rand(task.records) < task.batch / task.records).nonzero()[:, 0]
                yield features[chosen], labels[chosen]

        def loaded() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
            while True:
                yield from batches

        source = loaded() if loader else masked()

        def run(steps: int) -> None:
            for _ in range(steps):
                rows, targets = next(source)
                optimizer.zero_grad()
                criterion(module(rows), targets).backward()
                optimizer.step()

        return run

    return prepare


SIDE: dict[str, Prepare] = {
    "sgd": sgd,
    "hooks": opacus("hooks"),
    "hooks-loader": opacus("hooks", loader=True),
    "functorch": opacus("functorch"),
    "ghost": opacus("ghost"),
}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(serve(SIDE, without_noise=("sgd",), chunked=False))
