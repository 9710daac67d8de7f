"""Rounds of logistic regression in pfl-research's simulation, for `pfl_simulation.py`.

    python benchmarks/pfl_rounds.py --parties 100 --rounds 50

Needs `pip install pfl==0.6.0 torch==2.13.0`, in an environment of its own: this file imports
nothing of unisono. Prints one line of JSON: seconds of wall clock and of processor per round, in
order. Every user takes one gradient step on all its records in PyTorch, the update is clipped as a
whole, and the server adds Gaussian noise once (federated averaging with central privacy, as in the
library's own examples); no ledger, no accounting and no secure sum, and users are clipped, not
records: less than what it is compared with. All data lie in memory as tensors, evaluation is left
out, and PyTorch has one thread, which is faster for models of this size.
"""

import argparse
import importlib.util
import json
import time
from typing import Any

import figures
from flower_ray import CLIP, FEATURES, NOISE, RATE, records


def simulate(parties: int, rounds: int) -> dict[str, Any]:
    import torch
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel
    from pfl.privacy.gaussian_mechanism import GaussianMechanism
    from pfl.privacy.privacy_mechanism import CentrallyAppliedPrivacyMechanism

    torch.set_num_threads(1)

    class Logistic(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = torch.nn.Parameter(torch.zeros(FEATURES))

        def loss(self, rows: Any, labels: Any, **_: Any) -> Any:
            return torch.nn.functional.softplus(-labels * (rows @ self.weights)).mean()

        def metrics(self, rows: Any, labels: Any, **_: Any) -> dict[str, Any]:
            return {}

    seconds: list[tuple[float, float]] = []

    class Clock(TrainingProcessCallback):
        last = (time.perf_counter(), time.process_time())

        def after_central_iteration(
            self, aggregate_metrics: Any, model: Any, *, central_iteration: int
        ) -> tuple[bool, Any]:
            now = (time.perf_counter(), time.process_time())
            seconds.append((now[0] - self.last[0], now[1] - self.last[1]))
            self.last = now
            return False, Metrics()

    users = [tuple(map(torch.as_tensor, records(party))) for party in range(parties)]
    data = FederatedDataset(
        lambda user: Dataset(raw_data=users[user]),
        get_user_sampler("minimize_reuse", list(range(parties))),
    )
    module = Logistic()
    mechanism = CentrallyAppliedPrivacyMechanism(GaussianMechanism(CLIP, NOISE))
    model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=rounds,
            evaluation_frequency=rounds + 1,
            train_cohort_size=parties,
            val_cohort_size=None,
        ),
        SimulatedBackend(training_data=data, val_data=data, postprocessors=[mechanism]),
        model,
        NNTrainHyperParams(local_num_epochs=1, local_learning_rate=RATE, local_batch_size=None),
        callbacks=[Clock()],
        send_metrics_to_platform=False,
    )
    return {"parties": parties, "seconds": [a for a, _ in seconds], "busy": [b for _, b in seconds]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--parties", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=50)
    if importlib.util.find_spec("pfl") is None or importlib.util.find_spec("torch") is None:
        figures.without_peer(__doc__, "pfl", "`pfl_simulation.py --peer` names one that has")
    parser.add_argument("--smoke", action="store_true", help="two parties, two rounds")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.parties, arguments.rounds = 2, 2
    found = simulate(arguments.parties, arguments.rounds)
    if arguments.smoke:
        found = {"smoke": {"seconds": found["seconds"][-1]}, "missing": []}
    print(json.dumps(found), flush=True)
