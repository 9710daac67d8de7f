"""Private training of any model: a loss of one record, first parameters, and a budget.

    from unisono.problems.networks import mlp
    from unisono.training import train

    trained = train(mlp(64, (32,), 10), (rows, labels), epsilon=3.0, delta=1e-5, batch_size=500,
                    epochs=30, ledger=ledger)
    trained.predict(rows), trained.epsilon, trained.certificate.text()

In every round a record takes part with probability q, its gradient is clipped to C, noise hides
who took part, and an optimizer takes the step that n q records would have taken (`algorithms`):

    q = batch_size / n        rounds = epochs / q        n: the public sizes of all parties together

The claim, in `Trained.certificate`: (epsilon, delta) for one record under `relation`, by the
Gaussian mechanism over secret Poisson coins, against everyone who sees every iterate, and per
viewer where the trust says so. A `seed` makes a SIMULATION without privacy, as everywhere.

That is `algorithm="dp-sgd"`. With "local-dp-sgd" parties take noisy steps at home, with "dp-ftrl"
nothing is sampled and noise is correlated, and "fed-avg" hides a whole party (`choices`).

The relation is replace-one unless given, or zero-out where parties are hidden. Under add-or-remove
the number of records is hidden too: `sizes` are public estimates.
"""

from unisono.training.choices import algorithms
from unisono.training.loop import Trained, train
from unisono.training.progress import Step

__all__ = ["Step", "Trained", "algorithms", "train"]
