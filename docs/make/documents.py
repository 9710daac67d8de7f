"""Write docs/documents.md: five documents, item by item, and where each item is in the software.

    python docs/make/documents.py

One table, `DOCUMENTS`, holds everything. An item has the name and number that its document gives
it; what it is called here; lines that run it; and whether it is here as printed. Lines beginning
with `unisono` or `python` are commands, all others are Python that follows on from the document's
`setup`; behind `  # ` stands what a line gives. In `here` and `why` a link to an erratum is written
[words](E000-8). `pending` says what is still being added. `tests/test_documents.py` runs every
line, follows every link, and fails if the page is out of date, if an item lost its row or if an
erratum of a document is linked nowhere.
"""

import re
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[1] / "documents.md"

PRINTED = "as printed"
CORRECTED = "corrected"
BOTH = "both"
REMARK = "a remark"
ADDED = "being added"
TEXT = "not software"


class Item(NamedTuple):
    """One thing that a document states, in the order in which it states them."""

    name: str
    here: str
    run: tuple[str, ...]
    status: str
    why: str = ""
    pending: str = ""


class Document(NamedTuple):
    title: str
    source: str
    about: str
    setup: str
    items: tuple[Item, ...]


def item(
    name: str, here: str, *run: str, status: str = PRINTED, why: str = "", pending: str = ""
) -> Item:
    return Item(name, here, run, status, why, pending)


# --------------------------------------------------------------------------- 1, slides

SLIDES = Document(
    "Differential Privacy and Distributed Learning",
    "Chen Chen, University of Georgia; slides, 25 March 2019",
    "Definitions, the Laplace and Gaussian mechanisms, and the two ways of learning over several "
    "parties of Jayaraman et al. 2018. The slides are not numbered: items have their headings.",
    """\
import numpy as np
import unisono
from unisono import MECHANISMS, Facts, Privacy, PrivacyCurve, Relation, Study, Trust, bounded_sum
from unisono.accounting import gaussian, published_gaussian, theorems, zcdp
from unisono.algorithms.gradient_perturbation import GRADIENT_PERTURBATION, prefix_epsilon
from unisono.algorithms.output_perturbation import OUTPUT_PERTURBATION
from unisono.engines import in_process
from unisono.problems.linear import LinearLoss
from unisono.problems.losses import loss_named

def ledger(name):  # in memory; unisono.open_ledger keeps one on disk
    policy = unisono.Policy(name, unisono.Budget(4.0, 1e-5), published=True)
    return unisono.Ledger.in_memory(policy, unisono.ACCOUNTANT)

def party(name, size=400):
    generator = np.random.default_rng(len(name))
    rows = generator.normal(size=(size, 3)) / 3
    labels = np.where(rows @ [2.0, -1.0, 0.5] > 0, 1.0, -1.0)
    return unisono.Party(name, unisono.Private((rows, labels)), ledger(name))

def run(method, trust=Trust.SECURE_SUM, names=("Aalborg", "Bergen", "Cork")):
    facts = Facts(records=(400,) * len(names), features=3, minimum_parties=len(names))
    return in_process.run(Study(method, facts, trust), [party(name) for name in names])

ages, logistic = [34, 51, 29, 62] * 50, LinearLoss("logistic")
noise = MECHANISMS["gaussian"].calibrate(bounded_sum(l2=1.0), Relation.REPLACE_ONE, 1.0, 1e-6)
print(PrivacyCurve(noise * 1, Relation.REPLACE_ONE).epsilon(1e-6))
""",
    (
        item(
            "Problem setting: release a = Q(D); average, variance, maximum, minimum; linear "
            "models, SVM, unsupervised learning",
            "[statistics](statistics.md) and [models](studies.md): means, variances, extremes, "
            "regressions, support vector machines, k-means",
            'unisono.mean(ages, bounds=(18, 100), epsilon=0.5, ledger=ledger("ages"))',
            "python examples/incomes/make_data.py incomes",
            "unisono query incomes/coast.csv incomes/hills.csv --mean income --variance income "
            "--maximum income --bounds income=0:200000 --epsilon 1 --budget 4",
            "unisono models",
        ),
        item(
            "Definition: neighboring databases",
            "`Relation`: [replace-one, zero-out, add-or-remove](concepts/relations.md)",
            "[relation.value for relation in Relation]  "
            "# ['replace-one', 'zero-out', 'add-or-remove']",
            status=CORRECTED,
            why="[the text adds or removes a record, the proofs replace one](E000-1): every claim "
            "names which",
        ),
        item(
            "Definition: ε-differential privacy",
            "`PrivacyCurve.epsilon(0)`; `delta = 0` in a study",
            'PrivacyCurve(MECHANISMS["laplace"].calibrate(bounded_sum(l1=1.0), '
            "Relation.REPLACE_ONE, 0.5) * 1, Relation.REPLACE_ONE).epsilon(0.0)  # 0.5",
        ),
        item(
            "Privacy budget ε",
            "`Budget` in a `Policy`, kept by the [ledger](ledger.md), which refuses before data "
            "are read",
            'ledger("ages").policy.budget.epsilon  # 4',
        ),
        item(
            "Figure 1 and the strong adversary who knows all entries but one",
            "the trade-off of false alarms and misses; [audits](audits.md) play that adversary",
            "gaussian.best_guess_accuracy(1.0)  # 0.6915",
            "unisono audit --help",
        ),
        item(
            "Definition: approximate differential privacy, (ε, δ); usual choices of δ",
            "`Privacy(epsilon, delta)`, `PrivacyCurve`",
            "PrivacyCurve(noise * 1, Relation.REPLACE_ONE).delta(1.0)  # 1e-06",
            status=CORRECTED,
            why="[δ of the order 1/n lets one record be printed](E000-2): a δ of 1/n or more warns",
        ),
        item(
            "Definition: L1 and L2 sensitivity",
            "`Sensitivity`, derived from a bound that is enforced by clipping",
            "bounded_sum(l2=1.0).replace_one.l2  # 2",
            status=CORRECTED,
            why="[it depends on what a record can be, too](E000-4)",
        ),
        item(
            "Theorem: Laplace mechanism, Lap(Δ₁/ε)",
            '[`MECHANISMS["laplace"]`](mechanisms.md), drawn as exact integers',
            'MECHANISMS["laplace"].calibrate(bounded_sum(l1=1.0), Relation.REPLACE_ONE, '
            "0.5).noise.scale  # 4",
        ),
        item(
            "Theorem: Gaussian mechanism, ε = √(2 log(1.25/δ))/σ",
            '[`MECHANISMS["gaussian"]`](mechanisms.md); as printed: `published_classical_sigma`',
            "noise.noise.std  # 8.449",
            "gaussian.published_classical_sigma(0.9, 1e-6, 1.0)  # 5.888",
            "published_gaussian.classical_limit(1e-5)  # 8.42",
            status=BOTH,
            why="[false where ε is large](E000-3), wasteful where it is small: the exact curve is "
            "used",
        ),
        item(
            "Claim and proof: why the Laplace mechanism provides DP",
            "the ratio of densities is what the accountant bounds",
            "unisono privacy cost --mechanism laplace --noise 4 --delta 0",
        ),
        item(
            "Figure 2: density of the Laplace distribution; mean, median, mode μ, variance 2β²",
            "`Laplace`; `tail` bounds its error",
            'MECHANISMS["laplace"].tail(unisono.Laplace(2.0), 1, 0.05)  # 5.991',
        ),
        item(
            "Empirical risk minimisation; logistic regression as the example",
            "`LinearLoss`, `Loss`: value, gradient, Lipschitz constant G, smoothness L",
            'loss_named("logistic").lipschitz, loss_named("logistic").smoothness  # (1, 0.25)',
            "unisono algorithms gradient-perturbation",
        ),
        item(
            "Multi-party machine learning: objective and assumptions (G-Lipschitz, L-smooth, "
            "λ-strongly convex, unit ball, m parties of n_j records, n₍₁₎)",
            "`Facts` and `Study`: what everybody knows; rows are scaled into the unit ball, "
            "gradients clipped",
            "Facts(records=(400, 300), features=3, minimum_parties=2).parties  # 2",
            "python examples/hospitals/make_data.py hospitals",
            "unisono check hospitals/study.toml",
            "unisono reproduce kddcup --quick",
            "unisono reproduce adult-parties --quick",
        ),
        item(
            "Algorithm 1: ERM with output perturbation (Chaudhuri et al. 2011)",
            "[`output-perturbation`](algorithms/output-perturbation.md) of one party with "
            "`delta = 0`: norm (gamma) noise",
            "run(OUTPUT_PERTURBATION.method(logistic, Privacy(1.0, 0.0), regularisation=0.1), "
            'Trust.LOCAL, ["Aalborg"]).value',
            "unisono algorithms output-perturbation",
            status=CORRECTED,
            why="[|b| must be the Euclidean norm and the solver's error counts](E000-5)",
        ),
        item(
            "Claim and proof: the minimiser has sensitivity 2/(nλ)",
            "`releases.minimiser`: 2G/(nλ) + 2τ/λ for a public tolerance τ",
            "OUTPUT_PERTURBATION.method(logistic, Privacy(1.0, 0.0), regularisation=0.1)"
            ".bind(Facts((400,), 3, 1), Trust.LOCAL).event(Facts((400,), 3, 1), Trust.LOCAL)"
            ".sensitivity.replace_one.l2  # 0.05006",
            status=CORRECTED,
            why="[one step of the proof is false](E000-6), its conclusion holds",
        ),
        item(
            "Model aggregation with output perturbation, over m parties",
            "[`output-perturbation`](algorithms/output-perturbation.md) with `objective = "
            '"equal-parties"`; by default parties weigh by their sizes, with less noise',
            "averaged = run(OUTPUT_PERTURBATION.method(logistic, Privacy(1.0, 1e-6), "
            'regularisation=0.1, objective="equal-parties"))',
        ),
        item(
            "Secure model aggregation by an MPC protocol",
            'the [secure sum](secure-sum.md): `trust = "secure-sum"`; its protocol between '
            "machines with `unisono local-cluster`",
            "averaged.certificate.text()",
            "unisono local-cluster --help",
        ),
        item(
            "Theorem: θ̂ᵖʳⁱᵛ is ε-DP with Lap(2G/(m n₍₁₎ λ ε))",
            "`output-perturbation` with `delta = 0`; as printed: "
            "[`published = true`](printed-and-corrected.md), at its true epsilon",
            "run(OUTPUT_PERTURBATION.method(logistic, Privacy(0.5, 0.0), regularisation=0.1, "
            "published=True), Trust.LOCAL).certificate.printed",
            "theorems.published_laplace_true_epsilon(1.0, 1000)  # 31.62",
            "unisono reproduce noise-by-dimension --quick",
            status=BOTH,
            why="[independent Laplace noise on an L2 bound costs √p times ε](E000-8)",
        ),
        item(
            "Proof of that theorem",
            "`releases.minimiser`",
            status=TEXT,
            why="a proof; [a sum is missing, and no loss is both strongly convex and Lipschitz]"
            "(E000-7)",
        ),
        item(
            "Gradient perturbation, non-distributed: T noisy gradient steps",
            "[`gradient-perturbation`](algorithms/gradient-perturbation.md) of one party",
            "run(GRADIENT_PERTURBATION.method(logistic, Privacy(1.0, 1e-6), rounds=20), "
            'Trust.LOCAL, ["Aalborg"]).value',
        ),
        item(
            "Zero-concentrated DP: ε-DP is ε²/2-zCDP",
            "`zcdp.pure_classic`; tight: `zcdp.pure`",
            "zcdp.pure_classic(1.0)  # 0.5",
            "zcdp.pure(1.0)  # 0.4621",
        ),
        item(
            "zCDP: ρ gives (ρ + 2√(ρ log 1/δ), δ)",
            "`zcdp.epsilon_standard`; tight: `zcdp.epsilon`",
            "zcdp.epsilon_standard(0.1, 1e-5)  # 2.246",
            "zcdp.epsilon(0.1, 1e-5)  # 1.914",
        ),
        item(
            "zCDP, perturbation: Δ²/(2σ²)",
            "`zcdp.gaussian`",
            "zcdp.gaussian(1.0, 5.0)  # 0.02",
        ),
        item(
            "zCDP, composition: ρ₁ + ρ₂",
            "`zcdp.compose`; for Gaussian noise the exact `gaussian.compose`",
            "zcdp.compose([0.1, 0.2])  # 0.3",
        ),
        item(
            "Iterative learning: centralised objective J_D, an average of the parties' averages",
            "[`gradient-perturbation`](algorithms/gradient-perturbation.md) with `objective = "
            '"equal-parties"`; by default every record counts the same',
            "learnt = run(GRADIENT_PERTURBATION.method(logistic, Privacy(1.0, 1e-6), rounds=20, "
            'objective="equal-parties"))',
        ),
        item(
            "Theorem: σ² = 8G²T log(1/δ)/(m² n₍₁₎² ε²)",
            "`gradient-perturbation`: σ = 2G√T/(m n₍₁₎ μ*); as printed: "
            "[`published = true`](printed-and-corrected.md)",
            "run(GRADIENT_PERTURBATION.method(logistic, Privacy(1.0, 1e-6), rounds=20, "
            "published=True)).certificate.printed",
            "published_gaussian.published_gradient_perturbation_sigma(1.0, 1e-6, parties=10, "
            "smallest_party=100, lipschitz=1.0, rounds=100)  # 0.1051",
            "published_gaussian.published_gradient_perturbation_true_epsilon(16.0, 1e-5)  # 19.14",
            "unisono reproduce output-or-gradient --quick",
            status=BOTH,
            why="[the cited lemmas give more than ε, and above 7.96 it is false](E000-9)",
        ),
        item(
            "Remark: nothing is learnt from intermediate computations",
            "[viewers](concepts/viewers.md): everyone who sees all rounds is charged for all",
            "learnt.certificate.text()",
            status=CORRECTED,
            why="[only while clean gradients never leave the secure sum](E000-10)",
        ),
        item(
            "Corollary: θ_t is (√(t/T) ε, δ)-DP",
            "`prefix_epsilon`: μ√(t/T) on the exact curve",
            "prefix_epsilon(Privacy(1.0, 1e-6), 10, of=40)  # 0.4752",
            status=CORRECTED,
            why="[true up to an ε* that is not stated](E000-10)",
        ),
        item("References", "cited on the algorithms' pages", status=TEXT, why="literature"),
        item(
            "Backup slide: definition of zCDP by the moments of the privacy loss",
            "`zcdp`, `renyi`",
            "zcdp.delta(1.0, 0.05)  # 0.0003857",
        ),
    ),
)

# --------------------------------------------------------------------------- 2, Lecture 16

LECTURE_16 = Document(
    "Lecture 16: Basics of differential privacy",
    "Lecture notes, 21 November 2019; the copy names no author",
    "Definitions, properties, mechanisms and composition.",
    """\
import numpy as np
import unisono
from unisono import MECHANISMS, Event, Gaussian, PrivacyCurve, Relation, Viewer, bounded_sum
from unisono.accounting import gaussian, renyi, theorems, zcdp

def ledger(name):  # in memory; unisono.open_ledger keeps one on disk
    policy = unisono.Policy(name, unisono.Budget(4.0, 1e-5))
    return unisono.Ledger.in_memory(policy, unisono.ACCOUNTANT)

laplace, book = MECHANISMS["laplace"], ledger("ages")
answer = unisono.mean([34, 51, 29, 62] * 50, bounds=(18, 100), epsilon=0.5, ledger=book)
print(answer)
""",
    (
        item(
            "Definition 1.1: (ε, δ)-differential privacy, ‖X − X'‖₀ ≤ 1; and by symmetry both "
            "directions",
            "`PrivacyCurve` under `Relation.REPLACE_ONE`; both orders of neighbours are bounded",
            "PrivacyCurve(Event(Gaussian(4.0), bounded_sum(l2=1.0)) * 1, Relation.REPLACE_ONE)"
            ".epsilon(1e-6)  # 2.254",
        ),
        item(
            "Remark: other notions of adjacency",
            "[relations](concepts/relations.md); a certificate prints all that are defined",
            "unisono privacy cost --noise 4 --relation add-or-remove",
            status=REMARK,
        ),
        item(
            "Remark: with ε = δ = 0 nothing can be learnt",
            "an epsilon of 0 is refused: its noise would be infinite",
            "1 / gaussian.mu_for(1e-6, 1e-9)",
            status=REMARK,
        ),
        item(
            "Remark: the contrast with robust statistics",
            "none",
            status=TEXT,
            why="context; parties that send wrong values are in the "
            "[threat model](threat-model.md)",
        ),
        item(
            "Fact 1.1: post-processing",
            "whatever is computed from an answer is free: "
            "[accounting](accounting.md#post-processing)",
            'round(float(answer.value) * 12), book.spent(Viewer("final-model"))',
        ),
        item(
            "Fact 1.2: basic composition",
            "`theorems.sequential`; the ledger adds up more tightly",
            "theorems.sequential([(0.5, 1e-6), (0.25, 1e-6)])  # (0.75, 2e-06)",
        ),
        item(
            "Fact 1.3: group privacy",
            "`theorems.group_pure`, [group privacy](accounting.md#group-privacy)",
            "theorems.group_pure(0.5, 3)  # 1.5",
            "theorems.group_approximate(0.5, 1e-6, 3)  # (1.5, 5.367e-06)",
            "gaussian.group(0.5, 3)  # 1.5",
            why="[with δ > 0 the group's δ grows by more than k](E001-1)",
        ),
        item(
            "ℓ_p-sensitivity Δ_p(f)",
            "`Sensitivity`: l1, l2 and l∞ under each relation",
            "bounded_sum(l1=1.0, l2=1.0).replace_one.l1  # 2",
        ),
        item(
            "Remark: a function that is very large at one point cannot be released well",
            "public bounds are required, and values clipped to them",
            'unisono.total([34, 51, 29], bounds=(0, 100), epsilon=1.0, ledger=ledger("b"))',
            status=REMARK,
        ),
        item(
            "Definition 2.1: Laplace distribution", "`Laplace`", "unisono.Laplace(2.0).scale  # 2"
        ),
        item(
            "Definition 2.2: Laplace mechanism",
            '[`MECHANISMS["laplace"]`](mechanisms.md)',
            "laplace.calibrate(bounded_sum(l1=1.0), Relation.REPLACE_ONE, 0.5).noise.scale  # 4",
        ),
        item(
            "Theorem 2.1: it is (ε, 0)-private, with proof",
            "`PrivacyCurve` of Laplace noise",
            "PrivacyCurve(laplace.calibrate(bounded_sum(l1=1.0), Relation.REPLACE_ONE, 0.5) * 1, "
            "Relation.REPLACE_ONE).epsilon(0.0)  # 0.5",
            why="[the proof's last = is ≤](E001-2)",
        ),
        item(
            "Fact 2.2: Pr[|Y| ≥ tb] = exp(−t)",
            "`tail` of one coordinate",
            "laplace.tail(unisono.Laplace(1.0), 1, float(np.exp(-3.0)))  # 3",
        ),
        item(
            "Corollary 2.3: error of all coordinates, (Δ₁/ε) log(d/η)",
            "`tail`; every [statistic](statistics.md) comes with an interval",
            "laplace.tail(unisono.Laplace(1.0, 10), 10, 0.05)  # 5.298",
            "answer",
        ),
        item(
            "Example: histogram queries, Δ₁ ≤ 2",
            "`unisono.histogram`; `unisono query --histogram`",
            'unisono.histogram([0, 1, 1, 2] * 50, [0, 1, 2], epsilon=1.0, ledger=ledger("h"))',
            "unisono reproduce histogram-accuracy --quick",
            status=CORRECTED,
            why="[errors are additive: rare cells drown however many records there are](E001-3)",
        ),
        item(
            "Definition 2.3: Gaussian mechanism",
            '[`MECHANISMS["gaussian"]`](mechanisms.md)',
            'MECHANISMS["gaussian"].calibrate(bounded_sum(l2=1.0), Relation.REPLACE_ONE, 1.0, '
            "1e-6).noise.std  # 8.449",
        ),
        item(
            "Theorem 2.4: σ = cΔ₂/ε with c² ≳ log(1/δ)",
            "the exact curve: `gaussian.mu_for`, `gaussian.delta`",
            "gaussian.mu_for(1.0, 1e-6)  # 0.2367",
            "gaussian.delta(1.0, 1.0)  # 0.1269",
            status=CORRECTED,
            why="[no constant c serves every ε](E001-4)",
        ),
        item(
            "Definition 2.4: zero-concentrated DP, by the Rényi divergence",
            "`renyi.divergence`, [zCDP](accounting.md#zcdp); as printed: "
            "`published_inverted_renyi`",
            "renyi.divergence(2.0, [0.75, 0.25], [0.25, 0.75])  # 0.8473",
            "renyi.published_inverted_renyi(2.0, [0.75, 0.25], [0.25, 0.75])",
            status=BOTH,
            why="[dQ/dP stands for dP/dQ: publishing the data would qualify](E001-5)",
        ),
        item(
            "Theorem 2.5 (1): ε-DP is ε²/2-zCDP",
            "`zcdp.pure_classic`",
            "zcdp.pure_classic(1.0)  # 0.5",
        ),
        item(
            "Theorem 2.5 (2): ε²/2-zCDP is (ε²/2 + ε√(2 log 1/δ), δ)-DP",
            "`zcdp.epsilon_standard`",
            "zcdp.epsilon_standard(0.5, 1e-5)  # 5.299",
        ),
        item(
            "Theorem 2.6: σ = Δ₂/√(2ρ) gives ρ-zCDP",
            "`zcdp.standard_deviation`",
            "zcdp.standard_deviation(1.0, 0.02)  # 5",
        ),
        item(
            "Fact 2.7: accuracy of Gaussian noise",
            '`MECHANISMS["gaussian"].tail`: the exact quantile, below σ√(2 log(2d/η))',
            'MECHANISMS["gaussian"].tail(Gaussian(1.0), 10, 0.05)  # 2.807',
            status=CORRECTED,
            why="[√log(1/δ) is missing](E001-6): the σ that was drawn is used",
        ),
        item(
            "Section 3: adaptive composition",
            "`Composed` events; [composition](concepts/composition.md)",
            "PrivacyCurve(Event(Gaussian(4.0), bounded_sum(l2=1.0)) * 10, Relation.REPLACE_ONE)"
            ".epsilon(1e-6)  # 8.306",
        ),
        item(
            "Theorem 3.1, first part: epsilons and deltas add",
            "`theorems.sequential`, `theorems.basic`",
            "theorems.basic(0.1, 0.0, 100, 1e-6)  # 10",
        ),
        item(
            "Theorem 3.1, second part: ρ adds",
            "`zcdp.compose`",
            "zcdp.compose([0.1, 0.2])  # 0.3",
        ),
        item(
            "Theorem 3.1, third part: ε√(6T log 1/δ)",
            "`theorems.sqrt6` inside its condition; exact: `theorems.optimal`; as printed: "
            "`published_sqrt6`",
            "theorems.published_sqrt6(1.0, 1000, 1e-5)  # 262.8",
            "theorems.optimal(1.0, 0.0, 1000, 1e-5)  # 577.8",
            "theorems.sqrt6(0.1, 0.0, 100, 1e-5)  # 8.311",
            "unisono reproduce composition --quick",
            status=BOTH,
            why="[stated without its condition](E001-7)",
        ),
        item(
            "Section 4: worst-case privacy, average-case accuracy",
            "privacy never depends on the data; [plans](planning.md) predict accuracy for assumed "
            "ones",
            "unisono plan --task mean --parties 5 --records 300 --bounds 0:120",
            status=REMARK,
        ),
        item("References", "cited in `unisono.accounting`", status=TEXT, why="literature"),
    ),
)

# --------------------------------------------------------------------------- 3, Lecture 13

LECTURE_13 = Document(
    "Lecture 13: Differential Privacy (Cont'd)",
    "Prof. Qi Lei, scribe Aoran Chen; lecture notes, 25 April 2024",
    "The Laplace mechanism, why it drowns a network's gradients, and reconstruction attacks.",
    """\
import jax
import numpy as np
import unisono
from unisono import MECHANISMS, PrivacyCurve, Relation, bounded_sum
from unisono.accounting import gaussian
from unisono.attacks import defences, linear_recovery
from unisono.attacks.gradient_inversion import InversionSettings, invert
from unisono.attacks.scoring import match
from unisono.attacks.tensor import ACTIVATIONS, attack
from unisono.attacks.victim import Victim, attacker_model
from unisono.experiments import two_layer as lecture
from unisono.problems import networks

def ledger(name):  # in memory; unisono.open_ledger keeps one on disk
    policy = unisono.Policy(name, unisono.Budget(4.0, 1e-5))
    return unisono.Ledger.in_memory(policy, unisono.ACCOUNTANT)

generator = np.random.default_rng(0)
ages = [34, 51, 29, 62] * 50
weights = lecture.as_published(units=20, features=8, shape="tanh")  # w_j ~ N(0, I), a_j = 1/m
rows, targets = lecture.teacher_records(2, features=8)
network = networks.two_layer(8, 20, "tanh")
start = network.init(jax.random.key(0))
victim = Victim(network.loss, start, rows, targets)

def inverted(defence):  # by an attacker who knows the defence; 0 is the records themselves
    seen = defence.observe(victim, np.random.default_rng(0))
    model = attacker_model(network.loss, start, seen, 2)
    found = invert(model, targets, 8, InversionSettings(low=-1.0, high=1.0, restarts=4))
    return match(found.rows, rows).error

def linear_rounds(count):  # rounds of a linear network, all on the same batch
    linear = networks.two_layer(8, 20, "identity")
    starts = [linear.init(jax.random.key(k)) for k in range(count)]
    plain, coins = defences.Nothing(), np.random.default_rng(0)
    batches = (Victim(linear.loss, one, rows, targets) for one in starts)
    return starts, [plain.observe(batch, coins).update for batch in batches]

wide = generator.normal(size=(20_000, 16))  # a wide network's public start
secrets = generator.normal(size=(3, 16))
secrets /= np.linalg.norm(secrets, axis=1, keepdims=True)
output_gradient = ACTIVATIONS["selu"].value(wide @ secrets.T) @ [1.0, -0.8, 0.6]
laplace = MECHANISMS["laplace"]
print(unisono.total(ages, bounds=(0, 100), epsilon=0.5, ledger=ledger("ages")))
""",
    (
        item(
            "Definition 1, eq. (2.1): ε-DP",
            "`PrivacyCurve.epsilon(0)`",
            "PrivacyCurve(laplace.calibrate(bounded_sum(l1=1.0), Relation.REPLACE_ONE, 0.5) * 1, "
            "Relation.REPLACE_ONE).epsilon(0.0)  # 0.5",
        ),
        item(
            "Remark: randomized response",
            '`MECHANISMS["randomized-response"]`',
            'MECHANISMS["randomized-response"].calibrate(epsilon=1.0).noise',
            status=REMARK,
            why="[a mechanism among others, not the core of privacy](E002-2)",
        ),
        item(
            "Definition 2, eq. (3.1): Laplace mechanism",
            '[`MECHANISMS["laplace"]`](mechanisms.md)',
            'unisono.total(ages, bounds=(0, 100), epsilon=0.5, ledger=ledger("a"))',
            status=CORRECTED,
            why="[one replaced record, not ‖x − x'‖₁ ≤ 1](E002-1); [noise is centred](E002-2)",
        ),
        item(
            "Definition 3, eq. (3.2), Figure 1: Laplace distribution, variance 2b²; role of b",
            "`Laplace`, its `tail`",
            "laplace.tail(unisono.Laplace(2.0), 1, 0.05)  # 5.991",
        ),
        item(
            "Definition 4, eq. (3.3): ℓ₁-sensitivity",
            "`Sensitivity` under a named relation, from public bounds",
            "bounded_sum(l1=100.0).zero_out.l1  # 100",
            status=CORRECTED,
            why="[a sum of ages would get a hundredth of its noise](E002-1)",
        ),
        item(
            "Theorem 5, eqs. (3.4)-(3.9): the Laplace mechanism is ε-DP",
            "`PrivacyCurve` of Laplace noise",
            "unisono privacy cost --mechanism laplace --noise 4 --delta 0",
            why="[given the right Δ](E002-3)",
        ),
        item(
            "Section 3.4: query functions: sum of ages, average income, disease incidence, "
            "gradients",
            "[statistics](statistics.md): totals, means, counts over several parties; "
            "[training](learning.md)",
            'unisono.mean(ages, bounds=(0, 100), epsilon=0.5, ledger=ledger("b"))',
            'unisono.count([age > 60 for age in ages], epsilon=0.5, ledger=ledger("c"))',
            status=REMARK,
        ),
        item(
            "Section 4.1, eq. (4.1), Figure 2: federated learning, G = Σ∇L",
            "a [study](studies.md) over several parties; the server sees the sum, with noise",
            "unisono algorithms dp-sgd",
            "unisono algorithms fed-avg",
        ),
        item(
            "Eq. (4.2): the aggregation as a query with a sensitivity",
            "`clipped_sum`: every record's gradient bounded, then summed as integers",
            "unisono.clipped_sum(rows, clip=1.0, grid=2**-10).sensitivity.replace_one.l2",
        ),
        item(
            "Section 4.2, eq. (4.3): two-layer network",
            "`networks.two_layer`; model `network` in studies",
            "network.loss(start, (rows[0], targets[0]))",
            status=CORRECTED,
            why="[the sum runs over units, W is a matrix](E002-4)",
        ),
        item(
            "Eqs. (4.4)-(4.6): its gradients and residual",
            "per-record gradients, by the chain rule",
            "lecture.gradients(weights, rows, targets)",
            status=CORRECTED,
            why="[factors 2 and 2a_j are missing](E002-5)",
        ),
        item(
            "Takeaways: is data reconstructed from gradients? How much noise?",
            "[attacks](attacks.md), and the experiment of this section",
            "unisono reproduce laplace-gradients --quick",
            status=REMARK,
        ),
        item(
            "Section 4.3: the random network",
            "`as_published(units, features, shape)`",
            "weights.hidden.shape  # (20, 8)",
            status=CORRECTED,
            why="[the weights are normal, not the labels](E002-6)",
        ),
        item(
            "Eq. (4.7): change of the residual",
            "`bounds`, which covers x and y",
            "lecture.bounds(weights)  # (389.3, 80.31)",
            status=CORRECTED,
            why="[the label's change is left out](E002-7)",
        ),
        item(
            "Eq. (4.8): change of the gradient by a",
            "`bounds`; `largest_move` searches for the worst pair of records",
            "lecture.largest_move(weights, norm=1, starts=2, steps=10)",
            status=CORRECTED,
            why="[one residual bounds two, and a typical x stands for all](E002-8)",
        ),
        item(
            "Eq. (4.9): change of the gradient by w",
            "`bounds`",
            "lecture.bounds(weights)",
            status=CORRECTED,
            why="[a factor |r a_j σ'| is left out](E002-9)",
        ),
        item(
            "Eq. (4.10): Δ = O(m√d)",
            "`bounds`: Δ₁ and Δ₂ from public weights; in practice clipping",
            "lecture.bounds(weights)",
            status=CORRECTED,
            why="[true of typical records only](E002-10)",
        ),
        item(
            "Noise of variance 2b² and its magnitude",
            "noise is reported as the standard deviation that was drawn",
            "unisono reproduce laplace-gradients --quick",
            status=CORRECTED,
            why="[the printed magnitude is none of its measures](E002-11)",
        ),
        item(
            "Claim: DP is too strong a guarantee for networks",
            "clipping with Gaussian noise and sampling: [DP-SGD](algorithms/dp-sgd.md)",
            "unisono plan --task network --parties 20 --records 1000 --features 64 --classes 10",
            status=REMARK,
            why="an opinion; [networks](networks.md) has accuracies at given epsilons",
        ),
        item(
            "Section 4.4: linear networks, said to be safe without DP",
            "`linear_recovery`: XᵀX and Xᵀy from d + 1 rounds",
            "linear_recovery.from_rounds(*linear_rounds(9), 2).gram",
            status=CORRECTED,
            why="[they are not safe](E002-12)",
        ),
        item(
            "Section 5.1, eq. (5.1): gradient inversion attack, ℓ₂ or cosine",
            "`gradient_inversion.invert`; [`unisono attack`](attacks.md)",
            "inverted(defences.Nothing())",
            "gaussian.reconstruction_bound(0.01, 1.0)  # 0.09236",
            "unisono attack --help",
            why="the attack as printed; [that it shows a weakness of DP, or that hardness "
            "protects, is wrong](E002-13)",
        ),
        item(
            "Section 5.2, eq. (5.2): tensor-based method",
            "`attacks.tensor.attack`; [`reproduce table-1`](reproduce.md) fits its exponents",
            'match(attack(output_gradient, wide, "selu", batch=3).rows, secrets).error',
        ),
        item(
            "Section 5.3, Table 1, no defense: B√(d/m)",
            "`defences.Nothing`; `none` in the laboratory; the whole table, every exponent: "
            "[`reproduce table-1`](reproduce.md)",
            "inverted(defences.Nothing())",
            "unisono attack --quick --only none",
            "unisono reproduce table-1 --quick",
            why="[the table's bounds are upper bounds on one attack's error](E002-14): "
            "their exponents are fitted",
        ),
        item(
            "Table 1, k-local aggregation: kB√(d/m)",
            "`defences.LocalStepsDefence`",
            "inverted(defences.LocalStepsDefence(2, 0.1))",
            "unisono attack --quick --only local-same",
        ),
        item(
            "Table 1, ℓ₂-gradient noise: (B + σ)√(d/m)",
            "`defences.GradientNoise`",
            "inverted(defences.GradientNoise(0.01))",
            "unisono attack --quick --only noise-weak",
        ),
        item(
            "Table 1, gradient clipping: B√(d/m)",
            "`defences.Clipping`, of batches or records",
            "inverted(defences.ClippingDefence(0.01))",
            "unisono attack --quick --only clip-batch",
        ),
        item(
            "Table 1, DP-SGD: (B + σ max{1, ‖g‖/s})√(d/m)",
            "`defences.DpSgd`, with noise from a ledger",
            "inverted(defences.DpSgd(0.1, 1.0, 2))",
            "unisono attack --quick --only dp-8",
        ),
        item(
            "Table 1, p-dropout: B√(d/(mp))",
            "`defences.Dropout`, which keeps with probability p",
            'inverted(defences.Dropout(0.5, ("hidden",)))',
            "unisono attack --quick --only dropout-step",
            why="[p keeps, which is not said](E002-14)",
        ),
        item(
            "Table 1, gradient pruning: not applied",
            "`defences.Pruning`; no bound is given, the attack is measured all the same",
            "inverted(defences.Pruning(0.5))",
            "unisono attack --quick --only pruning",
        ),
        item(
            "Lower bounds for defenses, left for future research",
            "what an attack shows and what ε allows stand side by side: [attacks](attacks.md)",
            "gaussian.reconstruction_bound(0.01, 0.5)  # 0.0339",
            status=REMARK,
        ),
        item("References", "cited on [attacks](attacks.md)", status=TEXT, why="literature"),
    ),
)

# --------------------------------------------------------------------------- 4, thesis

THESIS = Document(
    "Differential Privacy & Approximate Bayesian Inference",
    "Mrinank Sharma, supervised by Richard E. Turner, University of Cambridge; thesis, draft of "
    "21 May 2019",
    "The moments accountant, DP-SGD, partitioned variational inference (PVI), and two private "
    "forms of it, tried on Bayesian linear regression.",
    """\
import jax.numpy as jnp
import numpy as np
import unisono
from unisono import Event, Facts, Gaussian, Poisson, Privacy, PrivacyCurve, Relation, Study, Trust
from unisono import bounded_sum
from unisono.accounting import gaussian, moments, published_gaussian, shares, theorems
from unisono.algorithms import free_energy as energy
from unisono.algorithms.pvi import infer
from unisono.algorithms.registry import (
    CLIPPED_UPDATES, CONVEX_DP_SGD, DP_SGA, ITERATED_REGRESSION, ONE_SHOT_REGRESSION
)
from unisono.attacks import model_inversion
from unisono.engines import in_process
from unisono.problems import gaussian_family as family
from unisono.problems import likelihoods
from unisono.problems.bayesian import BayesianProblem, GaussianRegression
from unisono.problems.linear import LinearLoss

def shard(seed, size=10):  # y = 2x + N(0, 0.5²), as in chapter 4
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(size, 1))
    return rows, 2.0 * rows[:, 0] + 0.5 * generator.normal(size=size)

def run(method, trust=Trust.LOCAL, seed=None):  # a seed makes it a simulation
    parties, trusted = [], ()
    if trust is Trust.TRUSTED_SERVER:  # clients who trust the server say so
        trusted = ((unisono.Viewer("server"), unisono.Budget(float("inf"))),)
    for number, own in enumerate(shards):
        policy = unisono.Policy(f"client {number}", unisono.Budget(30.0, 1e-4), trusted)
        ledger = unisono.Ledger.in_memory(policy, unisono.ACCOUNTANT, seed)
        parties.append(unisono.Party(f"client {number}", unisono.Private(own), ledger))
    facts = Facts(records=(10,) * 5, features=1, minimum_parties=5)
    return in_process.run(Study(method, facts, trust), parties)

shards = [shard(seed) for seed in range(5)]
rows, targets = (jnp.asarray(np.concatenate(part), jnp.float32) for part in zip(*shards))
prior, likelihood = family.prior(1, 0.0, 25.0), likelihoods.linear(0.5)
privacy = Privacy(10.0, 1e-5, Relation.ZERO_OUT)
line = GaussianRegression(prior_variance=25.0, noise_std=0.5)  # (4.1) and (4.2)
problem = BayesianProblem(likelihood, prior_variance=25.0)
found = infer(likelihood, prior, shards, passes=2)
q = found.posterior
own = family.Natural(found.factors.shift[0], found.factors.precision[0])
cavity = family.quotient(q, own)  # what the first client knows from the others
print(family.mean(q), family.variances(q))
""",
    (
        item(
            "Chapter 1: anonymisation is not enough: Netflix ratings (Narayanan and Shmatikov "
            "2008), genomes (Gymrek et al. 2013)",
            "the [linkage attack](attacks.md): two tables that share columns, joined; and the "
            "identification of a record among candidates",
            "unisono attack linkage --quick",
        ),
        item(
            "Chapter 1: model inversion attacks (Fredrikson et al. 2015)",
            "`model_inversion.class_image`, `missing_attribute`; `newcomer` for posteriors",
            "model_inversion.class_image(lambda row: row @ np.eye(3), 1, np.full(3, 0.5))",
        ),
        item(
            "Fig. 1.1: project aims, as a diagram of the literature",
            "none",
            status=TEXT,
            why="a picture of the literature",
        ),
        item(
            "Chapter 1: federated learning; posteriors for decisions",
            "[posteriors over several parties](bayesian.md), models "
            "`bayesian-linear-regression` and `bayesian-logistic-regression`",
            "unisono check examples/drug-response/study.toml",
            status=REMARK,
        ),
        item(
            "Definition 2.1.1, eq. (2.1): ε-differential privacy",
            "`PrivacyCurve.epsilon(0)`",
            "unisono privacy cost --mechanism laplace --noise 2 --delta 0",
        ),
        item(
            "Definition 2.1.2, eq. (2.2): (ε, δ)-differential privacy; δ as a probability",
            "`gaussian.delta`; the tail of the privacy loss is another function, "
            "`gaussian.loss_tail`",
            "gaussian.delta(1.0, 1.0)  # 0.1269",
            "gaussian.loss_tail(1.0, 1.0)  # 0.3085",
            status=CORRECTED,
            why="[δ is not the probability that ε fails](E003-1)",
        ),
        item(
            "Section 2.1.1: immunity to post-processing",
            "[post-processing](accounting.md#post-processing): `merge` and `result` of every "
            "algorithm",
            "family.mean(q)",
        ),
        item(
            "Definition 2.1.3, eq. (2.3): ℓ₂ sensitivity",
            "`Sensitivity`, one distance for each relation",
            "bounded_sum(l2=1.0).replace_one.l2, bounded_sum(l2=1.0).zero_out.l2  # (2, 1)",
            status=CORRECTED,
            why="[the definitions replace a record, the accountant adds one](E003-5)",
        ),
        item(
            "Theorem 2.1.4, eq. (2.4): Gaussian mechanism",
            "the exact curve; as printed: `published_classical_sigma`",
            "gaussian.published_classical_sigma(0.9, 1e-5, 1.0)  # 5.383",
            "1 / gaussian.mu_for(0.9, 1e-5)  # 4.107",
            status=BOTH,
            why="valid as printed for ε < 1, the exact curve needs less noise",
        ),
        item(
            "Definition 2.1.5, eq. (2.5): privacy loss",
            "privacy loss distributions, certified from both sides: `accounting.pld`",
            "gaussian.loss_tail(1.0, 1.0)  # 0.3085",
        ),
        item(
            "Definition 2.1.6, eq. (2.6): λth moment",
            "`moments.log_moments`",
            "float(moments.log_moments(0.1, 1.0)[0])  # 0.01704",
        ),
        item(
            "Theorem 2.1.7, eq. (2.7): composability",
            "`moments.compose`",
            "float(moments.compose([moments.log_moments(0.1, 1.0)], [10])[0])  # 0.1704",
        ),
        item(
            "Theorem 2.1.7, eq. (2.8): tail bound",
            "`moments.delta`: the smallest δ that is proved",
            "moments.delta(78 * moments.log_moments(1.0, 5.0), 10.0)  # 1.262e-05",
            status=CORRECTED,
            why="[≤ for =: δ = 0 would always do](E003-2)",
        ),
        item(
            "Eqs. (2.9)-(2.10): the accountant's δ and ε",
            "`moments.delta`, `moments.epsilon`; tight: `epsilon_tight`; exact: `gaussian.epsilon`",
            "moments.epsilon(78 * moments.log_moments(1.0, 5.0), 1e-5)  # 10.08",
            "moments.epsilon_tight(78 * moments.log_moments(1.0, 5.0), 1e-5)  # 9.328",
            "gaussian.epsilon(1e-5, 78**0.5 / 5)  # 8.588",
            status=BOTH,
            why="[right and loose](E003-3)",
        ),
        item(
            "Eq. (2.11): Gaussian mechanism with sub-sampling",
            "`Event` with a `Poisson` sampler",
            "PrivacyCurve(Event(Gaussian(1.0), bounded_sum(l2=1.0), Poisson(0.1)) * 100, "
            "Relation.ADD_OR_REMOVE).epsilon(1e-5)  # 7.047",
        ),
        item(
            "Eqs. (2.12)-(2.16): μ₀, μ₁, E₁, E₂; the remark that values can be computed beforehand",
            "`moments.log_moments`, in closed form",
            "moments.epsilon(100 * moments.log_moments(0.1, 1.0), 1e-5)  # 8.928",
            "unisono privacy compare --noise 1 --rate 0.1 --count 100 --relation add-or-remove",
            status=BOTH,
            why="[right for Poisson sampling and add-or-remove](E003-3); "
            "[q, σ and the steps decide, Δ does not](E003-4)",
        ),
        item(
            "Algorithm 1: DP-SGD",
            "[`dp-sgd`](algorithms/dp-sgd.md) for networks, `dp-sgd-convex` for linear models",
            'run(CONVEX_DP_SGD.method(LinearLoss("squares"), privacy, rounds=10, '
            "sampling_rate=0.5)).value",
            "unisono algorithms dp-sgd",
            status=CORRECTED,
            why="[line 8 adds up what was not clipped](E003-8); [the lot and the clip must not be "
            "read from data](E003-9)",
        ),
        item(
            "Section 2.1.3: clip at the median norm, falling learning rates, L ≈ √N",
            "`clipping = { quantile = 0.5 }` follows the median privately (Andrew et al. 2021); "
            "rates and batches by [public rules](defaults.md); for `pvi-dp-sga` `end_rate` and "
            '`sampling_rate = "sqrt"`',
            "unisono algorithms dp-sgd",
            "unisono algorithms pvi-dp-sga",
            status=CORRECTED,
            why="[a median of the data is a release](E003-9)",
        ),
        item(
            "Section 2.1.3: DP variational inference for non-conjugate models (Jälkö et al. 2016)",
            "`pvi-natural-gradient` for logistic, probit and your own likelihoods",
            "unisono algorithms pvi-natural-gradient",
            status=REMARK,
        ),
        item(
            "Eq. (2.17): q(θ) = p(θ) Π t_m(θ)",
            "`gaussian_family.product`",
            "family.product(prior, *(family.Natural(*part) for part in zip(*found.factors)))",
        ),
        item(
            "Algorithm 2, eqs. (2.18)-(2.21): partitioned variational inference",
            "[`pvi.infer`](algorithms/pvi.md): synchronous, sequential or asynchronous",
            'infer(likelihood, prior, shards, passes=2, order="sequential").posterior',
            status=CORRECTED,
            why='[other factors stay, which is not said](E003-13); ["until convergence" would be '
            "a message](E003-27): passes are agreed",
        ),
        item(
            "Definition 2.2.1, eq. (2.22): local free energy",
            "`free_energy.free_energy`, up to a constant",
            "energy.free_energy(likelihood, q, cavity, *map(jnp.asarray, shards[0]))",
        ),
        item(
            "Eq. (2.23): the update as a KL optimisation",
            "`pvi.local_optimum`",
            "family.kl(family.Natural(found.history.shift[0], found.history.precision[0]), q)",
            status=CORRECTED,
            why="[argmin, not argmax](E003-10)",
        ),
        item(
            "Eqs. (2.24)-(2.25): tilted distribution",
            "the cavity `quotient(q, t_m)` times the party's own likelihood",
            "family.mean(cavity)",
        ),
        item(
            "Definition 2.2.2, eq. (2.26): global free energy",
            "`free_energy.global_free_energy`: the evidence lower bound",
            "energy.global_free_energy(likelihood, q, prior, rows, targets)",
        ),
        item(
            "Theorem 2.2.3, eq. (2.27): local free energies add up to the global one",
            "`free_energy.local_free_energies` and `free_energy.fixed_point`, with factors whose "
            "product is normalised",
            "point = energy.fixed_point(likelihood, prior, found.factors, shards)",
            "round(abs(float(point.local.sum() - point.whole)), 2)  # 0",
            status=CORRECTED,
            why="[log Z is missing where factors are not normalised](E003-11)",
        ),
        item(
            "Theorem 2.2.3, eq. (2.28): local optima are global optima",
            "`free_energy.fixed_point`: gradients add up, so that a joint stationary point is one; "
            "the counterexample is a test",
            "round(float(abs(point.local_gradients.sum(0) - point.gradient).max()), 1)  # 0",
            status=CORRECTED,
            why="[a joint local optimum can be a global minimum](E003-12)",
        ),
        item(
            "Section 3.1, Fig. 3.1: the adversary sees every posterior, intercepts messages, "
            "plants clients",
            "[viewers](concepts/viewers.md): final model, all iterates, server, parties, "
            "colluders, network; a certificate has a line for each",
            "once = run(ONE_SHOT_REGRESSION.method(line, privacy, clipping_norm=4.0))",
            "once.certificate.text()",
        ),
        item(
            "Section 3.2.1, Fig. 3.2: datapoint-level DP-PVI",
            "[`pvi-dp-sga`](algorithms/pvi.md) under trust `local`; every client may have its own "
            "epsilon",
            "run(DP_SGA.method(problem, privacy, rounds=5, local_steps=5, "
            "sampling_rate=0.5)).value.natural",
        ),
        item(
            "Section 3.2.2, Algorithm 3, eqs. (3.1)-(3.6): dataset-level DP-PVI",
            '[`pvi-clipped-updates`](algorithms/pvi.md) with `unit = "party"`; as printed: '
            "[`published = true`](printed-and-corrected.md), in simulations",
            "run(CLIPPED_UPDATES.method(problem, privacy, rounds=5), Trust.SECURE_SUM)"
            ".value.natural",
            "published_gaussian.published_secret_state_mu(78, 0.1, 5.0)  # (6.8, 9.445)",
            "run(CLIPPED_UPDATES.method(problem, privacy, rounds=5, published=True), seed=1)"
            ".certificate.printed",
            "unisono reproduce dataset-level --quick",
            "unisono reproduce printed --quick",
            status=BOTH,
            why="[secret noise kept in the state is no longer noise: 8.59 is really 84]"
            '(E003-16); [slips in lines 8 and (3.6)](E003-14); ["until convergence"](E003-27)',
        ),
        item(
            "Eq. (3.7): the equivalent update; the learning rate in [0, 1]",
            "`damping` of `pvi-clipped-updates`",
            "unisono algorithms pvi-clipped-updates",
            why="[a common factor changes no privacy](E003-15); [/C is missing](E003-14)",
        ),
        item(
            "Section 3.2.2: variant in which the server clips and adds noise",
            "the same algorithm under trust `trusted-server`",
            "run(CLIPPED_UPDATES.method(problem, privacy, rounds=5), Trust.TRUSTED_SERVER)"
            ".value.natural",
        ),
        item(
            "Section 3.2.2: messages are weaker by √M and need encryption",
            "the [secure sum](secure-sum.md) hides them; a viewer of single messages is charged "
            "for single messages",
            "gaussian.epsilon(1e-5, 2 * (78 * 20) ** 0.5 / 5)  # 191.3",
            status=CORRECTED,
            why="[μ by √M, ε by up to M](E003-17)",
        ),
        item(
            "Section 3.2.2: updates in parallel; subsets of clients of a fixed size",
            "`sampling_rate` (secret) and `subset` (public) of `pvi-clipped-updates`",
            "unisono algorithms pvi-clipped-updates",
            status=REMARK,
        ),
        item(
            "Section 3.2.2: a client removes its own noise, (M − 1)/M; colluding clients",
            "noise shares for the honest parties only: `colluders` and `minimum_parties`",
            "gaussian.epsilon(1e-5, gaussian.colluders(78**0.5 / 5, 20, 15))  # 20.65",
            "shares.share_variance(1.0, 20, 15)  # 0.2",
            status=CORRECTED,
            why="[the variance is multiplied by (M − t)/M](E003-18)",
        ),
        item(
            "Section 3.2.2: a false server that lies about M",
            "a party counts the others by the [roster](deployment.md) that it holds itself",
            "unisono roster --help",
            status=REMARK,
        ),
        item(
            "Fig. 3.3: privacy barriers of the dataset level",
            "[trust](concepts/trust.md) and [threat model](threat-model.md)",
            status=TEXT,
            why="a picture; the certificate says the same of a study",
        ),
        item(
            "Section 3.2.3, eq. (3.8): groups of t data points",
            "`theorems.group_approximate`; tighter: `gaussian.group`; "
            "[group privacy](accounting.md#group-privacy)",
            "theorems.group_approximate(1.0, 1e-6, 10)  # (10, 0.01282)",
            "gaussian.epsilon(1e-6, gaussian.group(0.1, 10))  # 4.887",
            why="[a promise to a shard is one to each of its records](E003-19)",
        ),
        item(
            "Section 3.2.3: which level is natural",
            '`unit = "record"` or `"party"`: [hide whole parties](how-to/hide-whole-parties.md)',
            "[unit.value for unit in unisono.Unit]  # ['record', 'person', 'party']",
            status=REMARK,
        ),
        item(
            "Section 4.1.1, eqs. (4.1)-(4.3): linear model, prior, Gaussian factors",
            "`GaussianRegression`; model `bayesian-linear-regression`",
            "line.agreed",
            "unisono check examples/case-study/study.toml",
        ),
        item(
            "Eqs. (4.4)-(4.5): natural parameters and log normaliser A",
            "`Natural` (shift, precision), `log_normaliser`",
            "float(np.exp(family.log_density(family.gaussian(np.array([1.0]), np.array([4.0])), "
            "np.array([0.3]))))  # 0.1876",
            status=CORRECTED,
            why="[the sign of ln σ in (4.4)](E003-20)",
        ),
        item(
            "Eqs. (4.6)-(4.7): products and quotients",
            "`family.product`, `family.quotient`",
            "family.quotient(family.product(prior, prior), prior)",
        ),
        item(
            "Section 4.1.2, eqs. (4.8)-(4.11): analytical updates",
            "`pvi.infer` with the conjugate likelihood: exact after one pass",
            "infer(likelihood, prior, shards, passes=1).factors",
        ),
        item(
            "Section 4.1.3, eqs. (4.12)-(4.16): free energy and its gradient by the mean",
            "`free_energy.data_gradients` (clipped, noised) and `data_free_gradient`",
            "energy.data_gradients(likelihood, q, rows, targets).sum(0) "
            "+ energy.data_free_gradient(q, prior)",
        ),
        item(
            "Eq. (4.17): gradient by the variance",
            "the same functions; as printed in `reproduce fig4.1`",
            "energy.data_gradients(likelihood, q, rows, targets).sum(0)[1]",
            "unisono reproduce fig4.1 --quick",
            status=BOTH,
            why="[two halves are missing](E003-21)",
        ),
        item(
            "Section 4.1.4: assessing performance by KL",
            "`family.kl`",
            "float(family.kl(prior, prior))  # 0",
        ),
        item(
            "Section 4.2.1, eq. (4.18): DP-SGA on mean and log variance; thresholds",
            "[`pvi-dp-sga`](algorithms/pvi.md); `in_log_variance`",
            "energy.in_log_variance(q, energy.data_free_gradient(q, prior))",
            "unisono check examples/case-study/dp-sga.toml",
            "unisono algorithms pvi-dp-sga",
        ),
        item(
            "Fig. 4.1: results of DP-SGA",
            "[`reproduce fig4.1`](reproduce.md)",
            "unisono reproduce fig4.1 --quick",
            status=BOTH,
            why="[lots without replacement were accounted as Poisson](E003-6); [the posterior was "
            "compared with another prior](E003-26)",
        ),
        item(
            "Fig. 4.2: privacy cost over epochs",
            "[`reproduce fig4.2`](reproduce.md)",
            "unisono reproduce fig4.2 --quick",
            status=BOTH,
            why="the thesis's accountant beside certified values",
        ),
        item(
            "Section 4.2.2, eqs. (4.19)-(4.21): analytical updates with clipping and noise",
            "`iterated-regression` as published, [`one-shot-regression`]"
            "(algorithms/one-shot-regression.md) instead",
            "run(ITERATED_REGRESSION.method(line, privacy, clipping_norm=4.0, rounds=10)).value",
            "once.value",
            "unisono reproduce one-shot --quick",
            status=BOTH,
            why="[not unbiased](E003-22); [every round buys the same sums again](E003-25)",
        ),
        item(
            "Fig. 4.3: bias of the tilted posterior",
            "[`reproduce fig4.3`](reproduce.md)",
            "unisono reproduce fig4.3 --quick",
            status=BOTH,
            why="[the mean is over- rather than underestimated](E003-23)",
        ),
        item(
            "Section 4.2.2: choice of C; rescaling data privately",
            "public bounds of every column set the scale; where none are known, private "
            "[quantiles](algorithms/quantiles.md)",
            "python examples/incomes/make_data.py incomes",
            "unisono query incomes/coast.csv incomes/hills.csv --quantile income:0.95 "
            "--bounds income=0:10000000 --epsilon 1 --budget 4",
            status=REMARK,
        ),
        item(
            "Fig. 4.4: seven clips, fifty data sets, ε_max = 10",
            "[`reproduce fig4.4`](reproduce.md), over θ, by (4.20) as printed and as the code was, "
            "under both readings of N(0, 5)",
            "unisono reproduce fig4.4 --quick",
            "moments.steps_within(10.0, 1e-5, 1.0, 5.0)  # 77",
            status=BOTH,
            why="[stopping after ε is exceeded](E003-7); [10 is 20.65 where a record is replaced]"
            "(E003-5)",
        ),
        item(
            "Fig. 4.5: typical posteriors",
            "[`reproduce fig4.5`](reproduce.md), at the text's and the caption's clip",
            "unisono reproduce fig4.5 --quick",
            status=BOTH,
            why="[text and caption name different clips, and either fits](E003-24)",
        ),
        item(
            "Section 4.2.2: effect of θ on KL",
            "in `reproduce fig4.4`: KL at large over small |θ|",
            "unisono reproduce fig4.4 --quick",
            why="[η₂/η₁, and slips of wording](E003-24)",
        ),
        item(
            "Eqs. (4.22)-(4.24): law of the clamped statistic",
            "`placement` of `iterated-regression`: statistic, local or sum; "
            "[`reproduce clamp-bias`](reproduce.md) plots the bias",
            "run(ITERATED_REGRESSION.method(line, privacy, clipping_norm=4.0, rounds=10, "
            'placement="statistic")).value',
            "unisono reproduce clamp-bias --quick",
            status=BOTH,
            why="[the bias in closed form; raised after the sum it is smallest](E003-22)",
        ),
        item(
            "Fig. 4.6: the same without noise",
            "[`reproduce fig4.6`](reproduce.md)",
            "unisono reproduce fig4.6 --quick",
        ),
        item(
            "Fig. 4.7: posteriors without noise at the extremes of C",
            "[`reproduce fig4.7`](reproduce.md), at both ends of the grid and at the caption's C",
            "unisono reproduce fig4.7 --quick",
            why="[the caption's C = 2 is not in the grid](E003-24)",
        ),
        item(
            "Section 4.2.3: hybrid scheme, proposed and not run",
            '[`pvi-dp-sga`](algorithms/pvi.md) with `start = "one-shot"`, two stages of a study; '
            "[`reproduce hybrid`](reproduce.md)",
            "unisono check examples/case-study/hybrid.toml",
            "unisono reproduce hybrid --quick",
        ),
        item(
            "Section 4.3: dataset-level DP-PVI, without results in the draft",
            "`pvi-clipped-updates` for a line; [`reproduce dataset-level`](reproduce.md)",
            "unisono check examples/case-study/clipped-updates.toml",
            "unisono reproduce dataset-level --quick",
            status=BOTH,
            why="[run with the corrected state, and attacked with the printed one](E003-16)",
        ),
        item("Chapter 5: conclusions", "none", status=TEXT, why="empty in the draft"),
        item(
            "References",
            "cited on [the page on PVI](algorithms/pvi.md)",
            status=TEXT,
            why="literature",
        ),
        item("Appendix A: risk assessment", "none", status=TEXT, why="about working at a desk"),
        item(
            "Appendix B: the thesis's program",
            "read for the settings that the captions leave out, and not copied",
            status=TEXT,
            why="[its sampling](E003-6) and [its prior](E003-26) are errata",
        ),
    ),
)

# --------------------------------------------------------------------------- 5, write-up

WRITE_UP = Document(
    "Multi-party DP Write-up 2: Stochastic Gradient Descent",
    "Manuscript without author or date",
    "Two distributed protocols, SGD1 and SGD2, with privacy and utility theorems.",
    """\
import numpy as np
import unisono
from unisono import Facts, Privacy, Study, Trust
from unisono.accounting import gaussian, hidden_order, published_gaussian, theorems
from unisono.algorithms import bounds, sgd_sequential
from unisono.algorithms.projections import convex_set
from unisono.algorithms.sgd_sequential import SEQUENTIAL_SGD
from unisono.algorithms.sgd_synchronous import SYNCHRONOUS_SGD
from unisono.engines import in_process
from unisono.problems.linear import LinearLoss
from unisono.problems.losses import loss_named

def party(name, size=20):
    generator = np.random.default_rng(len(name))
    rows = generator.normal(size=(size, 3)) / 3
    labels = np.where(rows @ [2.0, -1.0, 0.5] > 0, 1.0, -1.0)
    policy = unisono.Policy(name, unisono.Budget(9.0, 1e-4), published=True)
    ledger = unisono.Ledger.in_memory(policy, unisono.ACCOUNTANT)
    return unisono.Party(name, unisono.Private((rows, labels)), ledger)

def owners():  # A_1 and A_2; whoever calls is B
    return [party("Aalborg"), party("Bergen")]

facts = Facts(records=(20, 20), features=3, minimum_parties=2)
logistic, privacy = LinearLoss("logistic"), Privacy(2.0, 1e-6)
sequential = Study(SEQUENTIAL_SGD.method(logistic, privacy), facts, Trust.LOCAL)
print(sgd_sequential.views(sequential))
""",
    (
        item(
            "Definition 1, eq. (1): ERM",
            "`LinearLoss`; sums of records' losses",
            'loss_named("logistic").name  # logistic',
            why="[slips of dimension](E004-1)",
        ),
        item(
            "Definition 2: Lipschitz function",
            "`Loss.lipschitz`, enforced by clipping every gradient to L",
            'loss_named("logistic").lipschitz  # 1',
        ),
        item(
            "Definition 3: distributed private ERM, A₁ … A_m and B; the whole computation is "
            "(ε, δ)-private",
            "a `Study` of several parties; [certificates](how-to/read-a-certificate.md) for every "
            "[viewer](concepts/viewers.md), B among them",
            "learnt = in_process.run(Study(SYNCHRONOUS_SGD.method(logistic, privacy, rounds=10), "
            "facts, Trust.LOCAL), owners())",
            "learnt.certificate.text()",
        ),
        item(
            "Definition 4, eq. (2): expected excess risk",
            "what `reproduce sgd-bounds` measures",
            "bounds.trivial(40, 1.0, 10.0)  # 400",
            "unisono reproduce sgd-bounds --quick",
        ),
        item(
            "Algorithm SGD1",
            "[`sgd-sequential`](algorithms/sgd.md): one named record after another, at most "
            "k_max uses of each; in process, between machines and in study files",
            "in_process.run(sequential, owners()).value",
            status=BOTH,
            why="[noise is drawn anew by every party and step](E004-1), and an owner refuses to "
            "be asked too often",
        ),
        item(
            "SGD1, steps 1, 3 and 5: θ₀ in C, projection Π_C onto a closed convex set",
            "`projections`: ball, box, simplex, l1-ball, or a set of one's own; θ₀ is drawn "
            "uniformly from it by a public seed",
            'sequential.algorithm.settings["radius"]  # 5',
            'convex_set("l1-ball", 2.0, 3).diameter  # 4',
        ),
        item(
            "Eq. (3): noise σ² of SGD1",
            "`hidden_order.published_sigma`, or [`published = true`](printed-and-corrected.md); "
            "else calibrated",
            "hidden_order.published_sigma(0.5, 1e-10, 1000, 1.0)  # 2.965e+05",
            "in_process.run(Study(SEQUENTIAL_SGD.method(logistic, Privacy(0.5, 1e-6), "
            "published=True), facts, Trust.LOCAL), owners()).value",
            status=BOTH,
            why="[too much against strangers, too little against B](E004-5)",
        ),
        item(
            "Eq. (4): learning rate η(t)",
            "as printed, in `sgd_sequential`",
            "bounds.second_moment(40, 1.0, 3, 25.0)  # 1675",
            why="[right](E004-6)",
        ),
        item(
            "Theorem 1: SGD1 is (ε, δ)-private",
            "`sgd_sequential.views`: ε against who knows what; ledgers are charged for the "
            "coordinator's knowledge",
            "sgd_sequential.views(sequential)",
            "hidden_order.known_order_epsilon(1e-10, 300, 1.0, "
            "hidden_order.published_sigma(0.5, 1e-10, 300, 1.0))  # 0.7339",
            status=CORRECTED,
            why="[B drew the order, so it hides nothing from B](E004-5); [the step's ε follows "
            "only from half the sensitivity](E004-3); [amplification holds up to ε₀ = 1](E004-4)",
        ),
        item(
            "Eq. (5): ε of the composition",
            "`theorems.strong`, `theorems.amplify_by_sampling`",
            'theorems.amplify_by_sampling(0.5, 1e-6, 0.01, sampler="without-replacement", '
            'relation="replace-one")  # (0.006466, 1e-08)',
            why="[the algebra holds](E004-4)",
        ),
        item(
            "Eq. (6): δ of the composition",
            "`theorems.slack`: what is left of δ; as printed: `published_equation6_delta`",
            "hidden_order.published_equation6_delta(5e-10, 1000)  # 0.0007937",
            status=BOTH,
            why="[a cube root of δ is counted as δ](E004-2)",
        ),
        item(
            "Lemma 1, eq. (7): strong composition theorem",
            "`theorems.strong` (Kairouz, Oh and Viswanath 2015), tighter than the 6.257 of "
            "eq. (7) here; `theorems.advanced` (Dwork and Roth 2014) is a little looser",
            "theorems.strong(0.1, 0.0, 100, 1e-6)  # 5.756",
            "theorems.advanced(0.1, 0.0, 100, 1e-6)  # 6.308",
            why="[valid](E004-6); [a bracket is misplaced](E004-1)",
        ),
        item(
            "Lemma 2, eq. (8): Gaussian DP",
            "`gaussian.published_classical_sigma`; exact: `gaussian.mu_for`",
            "gaussian.published_classical_sigma(0.5, 1e-6, 1.0)  # 10.6",
            "1 / gaussian.mu_for(0.5, 1e-6)  # 8.058",
            status=BOTH,
            why="[valid for ε < 1](E004-6)",
        ),
        item(
            "Theorem 2, eq. (9): utility of SGD1, Lipschitz losses",
            "`bounds.last_iterate_convex`, with every constant",
            "bounds.last_iterate_convex(10.0, bounds.second_moment(40, 1.0, 3, 25.0), 1600)  "
            "# 191.9",
            why="[the orders are right](E004-6)",
        ),
        item(
            "Theorem 2, eq. (10): utility of SGD1, strongly convex losses, η(t) = 1/(Δnt)",
            "`bounds.last_iterate_strongly_convex`; `strong_convexity` in the settings",
            "bounds.last_iterate_strongly_convex(40, 0.1, bounds.second_moment(40, 1.0, 3, 25.0), "
            "1600)  # 37.27",
            why="[the orders are right](E004-6)",
        ),
        item(
            "Algorithm SGD2",
            '[`sgd-synchronous`](algorithms/sgd.md); `iterate = "last"` returns θ_T as printed',
            "learnt.value",
            "unisono algorithms sgd-synchronous",
            status=CORRECTED,
            why="[sums run to m, and every party draws its own noise](E004-1)",
        ),
        item(
            "Theorem 3: SGD2 is (ε, δ)-private; proof in five steps",
            "σ = 2L√T/μ*; as printed: [`published = true`](printed-and-corrected.md)",
            "published_gaussian.published_synchronous_sgd_sigma(1.0, 1e-6, lipschitz=1.0, "
            "rounds=100)  # 453.9",
            "in_process.run(Study(SYNCHRONOUS_SGD.method(logistic, privacy, rounds=5, "
            "published=True), facts, Trust.LOCAL), owners()).certificate.printed",
            "2 * 100**0.5 / gaussian.mu_for(1.0, 1e-6)  # 84.49",
            "published_gaussian.published_synchronous_sgd_proved(1.0, 1e-6)  # (1.487, 2e-06)",
            status=BOTH,
            why="[the parts compose to √2 ε and 2δ](E004-7); [the worst party's ε counts, "
            "whether or not records are independent](E004-8)",
        ),
        item(
            "Theorem 4, eq. (11): utility of SGD2",
            "`bounds.weighted_average`; as printed: `published_equation_11`",
            "bounds.weighted_average(40, 0.1, bounds.second_moment(40, 1.0, 3, 25.0), 100)  "
            "# 8.292",
            "bounds.published_equation_11(40, 1.0, 3, 2, 5.0, 0.1, 100)",
            "unisono reproduce sgd-bounds --quick",
            status=BOTH,
            why="[valid for averages, and loose](E004-9)",
        ),
        item(
            "Eq. (12): convergence with a constant step",
            "`bounds.constant_step`; as printed: `published_equation_12`",
            "bounds.constant_step(1.0, bounds.second_moment(1, 1.0, 10, 5.0), 1000, 0.1)  # 2.555",
            "bounds.published_equation_12(1.0, 1.0, 1000, 0.1)  # 0.105",
            status=BOTH,
            why="[the noise term lacks mp](E004-10)",
        ),
        item(
            "References",
            "cited on [SGD1 and SGD2](algorithms/sgd.md)",
            status=TEXT,
            why="literature",
        ),
    ),
)

DOCUMENTS = (SLIDES, LECTURE_16, LECTURE_13, THESIS, WRITE_UP)

# --------------------------------------------------------------------------- the page

HEAD = """\
# From the documents to the software

Unisono was built from five documents. This page goes through them in their own order and by their
own numbers, and says for every definition, theorem, algorithm, experiment and attack what it is
called here and which line runs it.

{contents}

The last column says whether an item is here **as printed**; **corrected**, with the reason in half
a sentence that links to the [erratum](errata.md); **both**, the printed version beside the
corrected one, so that they can be compared; *a remark*, where the document discusses and the
software has something to say; or *not software*, such as a proof. Printed versions of false
theorems are for comparison: whoever runs one through a ledger is charged what it really costs.

Lines that begin with `unisono` or `python` belong in a terminal, in the folder of this repository.
The others are Python and follow on from the code above their table; *gives* tells what they give,
where that is the same every time.
`unisono reproduce` without `--quick` takes longer and is more exact.

Of {total} items {printed} are here as printed, {corrected} corrected and {both} both; {remarks} are
remarks and {text} are not software.
{pending}
*This page is written by `python docs/make/documents.py` from its table; a test runs every line and
fails when the page is out of date.*
"""


def pending() -> list[str]:
    """Items of which something is still being added."""
    return [f"{one.name}: {one.pending}" for doc in DOCUMENTS for one in doc.items if one.pending]


def line_and_result(line: str) -> tuple[str, str]:
    """A line without its comment, and what it gives; empty where that is not said."""
    code, _, result = line.partition("  # ")
    return code, result


def page() -> str:
    """The whole page."""
    everything = [one for document in DOCUMENTS for one in document.items]
    counts = {status: sum(one.status == status for one in everything) for status in _WORDS}
    contents = "\n".join(
        f"{number}. [{document.title}](#{_anchor(number)}): {document.source}"
        for number, document in enumerate(DOCUMENTS, 1)
    )
    unfinished = len(pending())
    head = HEAD.format(
        contents=contents,
        total=len(everything),
        printed=counts[PRINTED],
        corrected=counts[CORRECTED],
        both=counts[BOTH],
        remarks=counts[REMARK],
        text=counts[TEXT],
        pending=f"Of {unfinished} a part, or all, is *being added*.\n" if unfinished else "",
    )
    return "\n".join([head, *(_section(*one) for one in enumerate(DOCUMENTS, 1))])


_WORDS = {
    PRINTED: "as printed",
    CORRECTED: "**corrected**",
    BOTH: "**both**",
    REMARK: "*a remark*",
    ADDED: "*being added*",
    TEXT: "*not software*",
}


def _anchor(number: int) -> str:
    return f"document-{number}"


def _section(number: int, document: Document) -> str:
    table = [
        "| in the document | here | run it | as printed? |",
        "|---|---|---|---|",
        *(_row(one) for one in document.items),
    ]
    return "\n".join(
        [
            f'<a id="{_anchor(number)}"></a>',
            "",
            f"## {number}. {document.title}",
            "",
            f"*{document.source}.* {document.about}",
            "",
            f"```python\n{document.setup}```",
            "",
            *table,
            "",
        ]
    )


def _row(one: Item) -> str:
    joint = "; " if one.status == PRINTED else ": "
    status = joint.join(part for part in (_WORDS[one.status], one.why) if part)
    if one.pending and one.status == ADDED:
        status += f": {one.pending}"
    elif one.pending:
        status += f". *Being added*: {one.pending}"
    cells = (one.name, one.here, "<br>".join(map(_shown, one.run)) or "-", status)
    return "| " + " | ".join(_linked(cell).replace("|", "\\|") for cell in cells) + " |"


def _shown(line: str) -> str:
    code, result = line_and_result(line)
    return f"`{code}`" + (f" gives {result}" if result else "")


def _linked(text: str) -> str:
    """Links to errata, which are written by their number only."""
    return re.sub(r"\]\((E\d{3}-\d+)\)", r"](errata.md#\1)", text)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
