"""Every erratum, and the tests that show it: those that touch privacy here, others in `slips.py`.

`REQUIRED` is the list of ids that must be here; `test_registry.py` fails if one is missing, if a
test named here does not exist, or if the docstring of one in this folder does not begin with the
id. The page `docs/errata.md` is written from this file by `write_page.py`.
"""

import runpy
from pathlib import Path
from typing import NamedTuple

FALSE = "false as stated"
CONDITION = "true only under an unstated condition"
UNCLEAR = "true only under a condition that is easily missed"
ENGINEERING = "a correct formula made false"


class Pending(NamedTuple):
    """Why an erratum has no test yet, and which capability will bring it."""

    reason: str
    capability: str


class Entry(NamedTuple):
    """One erratum: the published claim, what holds instead, and its tests or why there are none.

    `tests` are "file::function" in this folder. `elsewhere` are "folder/file::function" beside it,
    which try the whole algorithm. `coming` names a part that arrives later, in addition to the
    tests that exist.
    """

    id: str
    severity: str
    where: str
    claim: str
    instead: str
    tests: tuple[str, ...] = ()
    pending: Pending | None = None
    coming: str = ""
    elsewhere: tuple[str, ...] = ()


SOURCES = {
    "E000": "Chen, *Differential Privacy and Distributed Learning* (slides, 2019), after "
    "Jayaraman et al. 2018",
    "E001": "*Lecture 16: Basics of differential privacy* (lecture notes, 2019)",
    "E002": "*Lecture 13: Differential Privacy (Cont'd)* (lecture notes, 2024)",
    "E003": "Sharma, *Differential Privacy & Approximate Bayesian Inference* (thesis draft, 2019)",
    "E004": "*Multi-party DP Write-up 2: Stochastic Gradient Descent* (SGD1 and SGD2)",
    "X": "Engineering: found by trying",
    "I": "Private inference in other software: FDPCox (Hung and Yu, arXiv 2508.19640; the package "
    "of 17 February 2026)",
}

# How many errata each source has; they are numbered without gaps.
COUNTS = {"E000": 10, "E001": 7, "E002": 14, "E003": 27, "E004": 10, "X": 11, "I": 2}
REQUIRED = tuple(f"{source}-{n + 1}" for source, last in COUNTS.items() for n in range(last))

# Those that touch privacy: a guarantee is false as stated, or true under a condition only.
AT_STAKE = (
    "E000-2",
    "E000-3",
    "E000-5",
    "E000-8",
    "E000-9",
    "E000-10",
    "E001-4",
    "E001-5",
    "E001-7",
    "E002-1",
    "E002-7",
    "E002-8",
    "E002-10",
    "E002-12",
    "E002-13",
    "E003-1",
    "E003-2",
    "E003-5",
    "E003-6",
    "E003-7",
    "E003-8",
    "E003-9",
    "E003-16",
    "E003-27",
    "E004-2",
    "E004-3",
    "E004-5",
    "E004-7",
    "X-1",
    "X-2",
    "X-3",
    "X-4",
    "X-5",
    "X-6",
    "X-7",
    "X-8",
    "X-9",
    "X-10",
    "X-11",
    "I-1",
    "I-2",
)

PRIVACY = (
    # ------------------------------------------------------------------ source 000
    Entry(
        "E000-2",
        CONDITION,
        "slide on (ε, δ)-privacy",
        "δ of the order of 1/n is listed as usual, but printing one random record in clear is "
        "(0, 1/n)-private.",
        "Statistics, estimators, training, study files and `unisono query` warn where δ is 1/n or "
        "more, and name 1/n²; an engine that is handed a study made by hand does not.",
        ("test_000.py::test_publishing_a_random_record_meets_a_delta_of_one_in_n",),
        elsewhere=(
            "test_statistics.py::test_a_large_delta_is_warned_about",
            "studies/test_build.py::test_a_large_delta_warns",
        ),
    ),
    Entry(
        "E000-3",
        UNCLEAR,
        "Gaussian mechanism theorem",
        '"ε, δ ∈ (0, 1)" is stated, but no ε is given: it is the promise √(2 log(1.25/δ))/σ '
        "that must lie below 1, and nothing is asked of σ. At δ = 1e-5 the promise is false above "
        "8.41 (10: true δ 2.27e-5; 20: 1.5e-3), and wastes noise below 1.",
        "σ = Δ₂/μ* from the exact curve; the classical formula is refused above ε = 1.",
        (
            "test_000.py::test_the_classical_gaussian_is_false_for_large_epsilon",
            "test_000.py::test_where_the_classical_gaussian_stops_being_true",
        ),
    ),
    Entry(
        "E000-5",
        CONDITION,
        "Algorithm 1, density exp(-nλε|b|/2)",
        "True only for the Euclidean norm and the exact minimiser; coordinate-wise it costs √p "
        "times ε, and a solver that stops early moves further.",
        "The norm mechanism with an L2 sensitivity that holds 2G/(nλ) + 2τ/λ for a public τ.",
        (
            "test_000.py::test_the_norm_density_needs_the_euclidean_norm",
            "test_000.py::test_an_inexact_solver_moves_the_minimiser_further",
        ),
    ),
    Entry(
        "E000-8",
        FALSE,
        "output perturbation theorem",
        "Independent Laplace noise is scaled by an L2 sensitivity; a linear loss attains √p ε "
        "(p = 1000: 31.6 times the claim).",
        "Laplace noise takes an L1 sensitivity and refuses an L2 one; pure ε from an L2 bound "
        "comes from the norm mechanism, in shares for m - t honest parties.",
        (
            "test_000.py::test_laplace_noise_on_an_l2_bound_costs_sqrt_p",
            "test_000.py::test_an_audit_catches_the_published_output_perturbation",
            "test_000.py::test_shares_of_norm_noise_need_the_colluders_counted",
        ),
    ),
    Entry(
        "E000-9",
        FALSE,
        "gradient perturbation theorem",
        "The cited zCDP lemmas give ε + ε²/(4 log 1/δ), never ε; exactly, the printed σ is false "
        "above ε* = 7.96 (δ = 1e-5: claimed 16 is 19.14, claimed 32 is 49.91).",
        "σ = 2G√T/(m n₍₁₎ μ*(ε, δ)), exact at every ε.",
        (
            "test_000.py::test_gradient_perturbation_as_published",
            "test_000.py::test_the_zcdp_proof_of_gradient_perturbation_never_closes",
        ),
    ),
    Entry(
        "E000-10",
        CONDITION,
        "corollary (√(t/T) ε, δ)",
        "True only while √(t/T) ε ≤ ε*(δ), and only if local gradients never leave the secure sum.",
        "Prefixes cost μ √(t/T) on the exact curve; a server that sees clean values is booked as "
        "infinite.",
        (
            "test_000.py::test_prefixes_of_a_run_cost_what_the_exact_curve_says",
            "test_000.py::test_clean_gradients_at_the_server_are_booked_as_no_protection",
        ),
    ),
    # ------------------------------------------------------------------ source 001
    Entry(
        "E001-4",
        CONDITION,
        "Theorem 2.4",
        "σ = cΔ₂/ε with a fixed c is stated for all ε; for large ε the true δ goes to 1.",
        "The exact curve at every ε.",
        ("test_001.py::test_no_constant_saves_the_gaussian_for_every_epsilon",),
    ),
    Entry(
        "E001-5",
        FALSE,
        "Definition 2.4",
        "The Rényi divergence has dQ/dP for dP/dQ: publishing the data satisfies it, and "
        "randomized response looks 3 to 6 times safer (ρ 0.141 for 0.462 at ε = 1).",
        "dP/dQ; disjoint outputs are infinitely far apart.",
        (
            "test_001.py::test_the_inverted_divergence_underrates_randomized_response",
            "test_001.py::test_publishing_the_data_satisfies_the_inverted_definition",
            "test_001.py::test_gaussians_do_not_notice_the_inversion",
        ),
    ),
    Entry(
        "E001-7",
        FALSE,
        "Theorem 3.1(iii)",
        "√(6 T log 1/δ) ε without a condition: 1000 randomized responses at ε = 1 are claimed to "
        "cost 262.83 and cost 577.83.",
        "The theorem is refused outside T ε² ≤ 4.287 log(1/δ); optimal composition is exact.",
        (
            "test_001.py::test_a_thousand_randomized_responses",
            "test_001.py::test_the_sqrt6_theorem_holds_inside_its_condition",
        ),
    ),
    # ------------------------------------------------------------------ source 002
    Entry(
        "E002-1",
        FALSE,
        "Definitions 2 and 4, eq. (3.3)",
        "Neighbours are ‖x - x'‖₁ ≤ 1 on raw data, so a sum of ages gets a hundredth of its noise.",
        "One record is replaced, on public bounds that are enforced by clipping.",
        (
            "test_002.py::test_sum_of_ages_gets_a_hundredth_of_its_noise",
            "test_002.py::test_ages_beyond_the_public_bounds_are_clipped",
        ),
    ),
    Entry(
        "E002-7",
        FALSE,
        "eq. (4.7)",
        "The residual's change leaves out y - y', which alone can be 2.",
        "Replace-one changes x and y; the bound from public weights covers both.",
        ("test_002.py::test_the_residual_also_moves_with_the_label",),
    ),
    Entry(
        "E002-8",
        FALSE,
        "eq. (4.8)",
        "|r σ - r' σ'| is bounded with one residual (0 when r = 0), and by an average over x.",
        "max(|r|, |r'|)(|σ| + |σ'|), and a supremum over x.",
        (
            "test_002.py::test_the_bound_on_one_activation_gradient_is_false",
            "test_002.py::test_typical_activations_say_nothing_about_the_worst_record",
        ),
        elsewhere=(
            "experiments/test_laplace_gradients.py::"
            "test_the_worst_record_outgrows_typical_ones_with_the_features",
        ),
    ),
    Entry(
        "E002-10",
        CONDITION,
        "eq. (4.10)",
        "The constants hold for typical records only; one record passes them several times over.",
        "Δ₁ ≤ 4R(√m‖W‖ + √d‖a‖₁) and Δ₂ ≤ 4R√(‖W‖² + ‖a‖²) from public weights, or clipping.",
        (
            "test_002.py::test_public_weights_bound_every_gradient",
            "test_002.py::test_the_typical_case_constant_is_exceeded_by_a_worst_record",
        ),
        elsewhere=(
            "experiments/test_laplace_gradients.py::"
            "test_the_bound_holds_and_the_search_is_no_idle_talk",
            "experiments/test_laplace_gradients.py::"
            "test_laplace_drowns_what_clipping_and_gaussian_noise_let_through",
        ),
    ),
    Entry(
        "E002-12",
        FALSE,
        "section 4.4, linear networks",
        '"Safe even without DP": d + 1 rounds give XᵀX and Xᵀy exactly, and with them the last '
        "record to whoever knows the others.",
        "The attack is part of the library; without noise nothing is called private.",
        ("test_002.py::test_a_linear_network_gives_the_last_record_away",),
        elsewhere=(
            "attacks/test_linear_recovery.py::test_d_plus_one_rounds_give_the_statistics_exactly",
            "attacks/test_linear_recovery.py::test_a_column_of_one_person_is_that_persons_record",
        ),
    ),
    Entry(
        "E002-13",
        FALSE,
        "section 5.1, gradient inversion",
        "Inverting a gradient that has no noise is said to show a weakness of DP. That the problem "
        "is NP-hard, which is said beside it, protects nobody: hardness is that of the worst case.",
        "μ-GDP lets at most Φ(Φ⁻¹(κ) + μ) of secrets be found that a blind guess finds with κ.",
        ("test_002.py::test_privacy_bounds_every_reconstruction",),
        elsewhere=("accounting/test_gaussian.py::test_reconstruction_bound",),
    ),
    # ------------------------------------------------------------------ source 003
    Entry(
        "E003-1",
        CONDITION,
        "section 2.1.1",
        "δ is called the probability that ε-privacy fails; at μ = ε = 1 δ is 0.1269 and the loss "
        "exceeds ε with probability 0.3085.",
        "δ and the tail of the privacy loss are two functions.",
        ("test_003.py::test_delta_is_not_the_probability_of_a_large_loss",),
    ),
    Entry(
        "E003-2",
        FALSE,
        "eq. (2.8)",
        "δ ≤ exp(α(λ) - λε) is printed for =, so δ = 0 always qualifies; (2.9) has it right.",
        "The minimum over λ is the smallest δ that is proved, and lies above the exact one.",
        ("test_003.py::test_delta_zero_satisfies_the_printed_tail_bound",),
    ),
    Entry(
        "E003-5",
        FALSE,
        "Definitions 2.1.1-2.1.3 against section 2.1.2",
        "The definitions replace a record, the accountant adds one: figure 4.4 ends at 8.59 or "
        "20.65.",
        "Events carry the sensitivity of each relation, and certificates print all of them.",
        (
            "test_003.py::test_figure_4_4_under_both_relations",
            "test_003.py::test_clipped_statistics_have_a_diameter_of_twice_the_clip",
        ),
    ),
    Entry(
        "E003-6",
        FALSE,
        "the thesis's code",
        "Lots of fixed size are drawn without replacement and accounted as Poisson.",
        "The sampler emits its own event; a draw sampled one way refuses the other's noise.",
        (
            "test_003.py::test_lots_without_replacement_cost_more_than_poisson",
            "test_003.py::test_a_shuffle_cannot_be_booked_as_poisson",
        ),
    ),
    Entry(
        "E003-7",
        FALSE,
        'figure 4.4, "termination after ε exceeds"',
        "Stopping after the budget is passed releases step 78 at 10.08 of 10.",
        "The ledger refuses before the step, and before data are read.",
        ("test_003.py::test_the_ledger_refuses_before_the_step_that_would_overspend",),
    ),
    Entry(
        "E003-8",
        FALSE,
        "Algorithm 1, line 8",
        "The unclipped gradients are summed, so ε is infinite.",
        "Contributions are made by functions that clip; anything else is refused.",
        ("test_003.py::test_the_unclipped_sum_is_unbounded",),
    ),
    Entry(
        "E003-9",
        CONDITION,
        "Algorithm 1, lot size and clip",
        "Dividing by the lot that happened to be drawn, or clipping at the median norm, lets one "
        "record move everything.",
        "Divisors are public facts and the clip is a public setting.",
        (
            "test_003.py::test_dividing_by_the_lot_that_happened_to_be_drawn",
            "test_003.py::test_a_clip_read_from_the_data_moves_every_record",
        ),
    ),
    Entry(
        "E003-16",
        FALSE,
        "Algorithm 3 and its accounting",
        "Clients feed their secret noise share back into their state and then correct it: the "
        "accountant says 8.59, the final model costs 51.3 and all rounds 84.1.",
        "Noise is added by the engine after the local step, so states are functions of data and "
        "public values; the attack then stays within what is allowed. Every private "
        "algorithm of partitioned inference is audited.",
        (
            "test_003_algorithm_3.py::test_secret_noise_in_the_state_separates_the_worlds",
            "test_003_algorithm_3.py::test_what_the_published_algorithm_really_costs",
            "test_003_algorithm_3.py::test_an_attack_succeeds_far_more_often_than_allowed",
            "test_engineering_wire.py::test_a_partys_state_never_sees_its_own_noise",
        ),
        elsewhere=(
            "algorithms/test_pvi_audit.py::test_claims_hold_and_are_not_idle",
            "algorithms/test_pvi_audit.py::test_halved_noise_is_caught",
            "algorithms/test_pvi_analytic.py::test_factors_are_functions_of_what_was_released",
            "engines/test_bayesian.py::test_one_record_moves_one_shard_however_long_the_run",
        ),
    ),
    Entry(
        "E003-27",
        CONDITION,
        'Algorithms 2 and 3, "until convergence"',
        "A stopping rule on clean values tells neighbours apart by the number of rounds.",
        "Rounds are agreed and paid for as a whole before data are read.",
        ("test_003.py::test_rounds_until_convergence_are_a_message",),
    ),
    # ------------------------------------------------------------------ source 004
    Entry(
        "E004-2",
        FALSE,
        "eq. (6)",
        "δ' = δ^(1/3) is counted as δ: 5e-10 becomes 7.9e-4.",
        "What is left of δ for a composition theorem is computed, and refused when nothing is.",
        ("test_004.py::test_the_cube_root_of_delta_is_not_delta",),
    ),
    Entry(
        "E004-3",
        FALSE,
        "proof of Theorem 1, use of Lemma 2",
        "The step's ε follows only from half the replace-one sensitivity 2nL.",
        "The event holds the sensitivity of each relation, and the exact curve its cost.",
        ("test_004.py::test_lemma_2_does_not_give_the_step_that_theorem_1_uses",),
    ),
    Entry(
        "E004-5",
        FALSE,
        "Theorem 1 against the coordinator",
        "A hidden order is counted as amplification against the party that drew it: n = 3000 and "
        "ε = 0.5 is really 2.12.",
        "Against who knows the order every use counts in full.",
        (
            "test_004.py::test_who_drew_the_order_is_not_fooled_by_it",
            "test_004.py::test_theorem_1_is_true_only_for_strangers_and_few_records",
        ),
    ),
    Entry(
        "E004-7",
        FALSE,
        "Theorem 3, steps 4 and 5",
        "T parts of (ε/√(T log 1/δ), δ/T) are said to be (ε, δ)-private; they are "
        "(√2 ε + ε²/log(1/δ), 2δ)-private.",
        "σ = 2L√T/μ*(ε, δ): 84.5 where the text's own formula needs 453.9.",
        (
            "test_004.py::test_synchronous_sgd_proves_less_than_it_states",
            "test_004.py::test_synchronous_sgd_noise_in_numbers",
        ),
    ),
    # ----------------------------------------------------------------- engineering
    Entry(
        "X-1",
        ENGINEERING,
        "float sums",
        "A float32 running sum moves by 2C when one record of norm C is removed.",
        "Records are clipped and rounded to integers before they are summed.",
        ("test_engineering.py::test_a_float_sum_moves_by_twice_the_clip",),
    ),
    Entry(
        "X-2",
        ENGINEERING,
        "one key in a loop",
        "A key used inside a compiled scan gives identical noise in every step.",
        "Draws are indexed by step, and a step cannot be drawn twice.",
        (
            "test_engineering.py::test_one_key_in_a_scan_repeats_its_noise",
            "test_engineering.py::test_a_grant_gives_fresh_noise_at_every_step",
        ),
    ),
    Entry(
        "X-3",
        ENGINEERING,
        "rounded noise",
        "A discrete Gaussian is accounted on the continuous curve (δ .332 for .322).",
        "The integer law is accounted, or shares are rounded Gaussians, whose gap is proved.",
        (
            "test_engineering.py::test_a_discrete_gaussian_lies_above_the_continuous_curve",
            "test_engineering.py::test_sums_of_rounded_shares_stay_on_the_continuous_curve",
        ),
    ),
    Entry(
        "X-4",
        ENGINEERING,
        "shares and survivors",
        "Noise is split among all parties, while some drop out and some collude.",
        "Shares have variance total / h with h = minimum survivors - colluders.",
        ("test_engineering.py::test_shares_are_planned_for_the_survivors_who_do_not_collude",),
    ),
    Entry(
        "X-5",
        ENGINEERING,
        "solver tolerance",
        "The gradient norm a solver reached depends on the data, so it cannot be in the "
        "sensitivity.",
        "A public tolerance τ adds 2τ/λ to the sensitivity; whoever misses it releases nothing.",
        ("test_engineering.py::test_inexact_minimisers_stay_within_the_public_tolerance",),
        elsewhere=(
            "algorithms/test_convex_output.py::"
            "test_a_solver_that_misses_the_tolerance_is_a_dropout",
            "algorithms/test_convex_objective.py::test_a_missed_tolerance_releases_nothing",
        ),
    ),
    Entry(
        "X-6",
        ENGINEERING,
        "failures that depend on data",
        "Error messages, sizes and missing answers tell about the records.",
        "Every failure is the same dropout on the wire; odd values are clipped or count as zero.",
        (
            "test_engineering_wire.py::test_failures_of_the_data_look_like_any_dropout",
            "test_engineering_wire.py::test_odd_data_answer_like_good_data",
            "test_engineering_wire.py::test_the_server_cannot_tell_bad_data_from_silence",
        ),
    ),
    Entry(
        "X-7",
        ENGINEERING,
        "copies",
        "Cloning an estimator deep-copies its ledger and doubles the budget.",
        "A copy is the same ledger; pickling is refused. Every fit of a search is a release, and "
        "so is the choice.",
        ("test_engineering.py::test_copies_of_a_ledger_share_one_budget",),
        elsewhere=(
            "test_estimators.py::test_grid_search_is_charged_for_every_fit",
            "test_estimators.py::test_private_search_pays_for_fits_and_choice",
        ),
    ),
    Entry(
        "X-8",
        ENGINEERING,
        "identity",
        "One person with several records, or at two parties, is protected less than claimed.",
        "Both are declared in the policy, and the certificate prints the weakest declaration.",
        ("test_engineering.py::test_the_certificate_prints_who_may_own_what",),
    ),
    Entry(
        "X-9",
        ENGINEERING,
        "retries and checkpoints",
        "A server that asks again burns budget or gets the same noise twice.",
        "Attempts are paid for in advance, a repeated ask is a dropout, no key is used again, "
        "ledgers are readable by their owner only, and values without noise are not written to "
        "checkpoints.",
        (
            "test_engineering.py::test_grants_taken_are_spent_and_keys_are_never_used_again",
            "test_engineering_wire.py::test_retries_get_no_second_answer_and_burn_no_budget",
        ),
        elsewhere=(
            "engines/test_conformance.py::"
            "test_noise_is_calibrated_for_retries_that_are_paid_only_when_used",
            "engines/test_conformance.py::test_a_run_can_be_stopped_and_resumed",
            "engines/test_bayesian.py::test_what_parties_remember_is_not_written_to_disk",
        ),
    ),
    Entry(
        "X-10",
        ENGINEERING,
        "a coordinator who names records",
        "In SGD1 the coordinator may name one record n² times.",
        "A public cap of k_max uses per record: μ = √k_max 2nL/σ.",
        ("test_engineering.py::test_a_coordinator_who_names_one_record_again_and_again",),
        elsewhere=(
            "algorithms/test_convex_sgd.py::"
            "test_sgd1_owner_refuses_a_coordinator_who_names_one_record_again_and_again",
            "algorithms/test_convex_sgd.py::test_sgd1_is_charged_the_capped_cost_against_everyone",
        ),
    ),
    Entry(
        "X-11",
        ENGINEERING,
        "samplers inside compiled programs",
        "Total variation of float noise, summed over a billion draws, bounds nothing.",
        "The relative error of each grid cell is bounded and composed: below 1e-3 in ε.",
        ("test_engineering.py::test_summed_total_variation_of_float_noise_is_useless",),
    ),
    # ------------------------------------------------------------------ other software
    Entry(
        "I-1",
        ENGINEERING,
        "`cdp_cox`, `fdp_cox`: noise of every iterate",
        "One record moves the gradient of Cox's partial likelihood by a bound that grows with "
        "exp(2|β|). It is computed at the first iterate, β = 0, and kept: of 1,000 records one "
        "moves the gradient 2.9 times as far at |β| = 1, and 13 times at 2.",
        "Hazard ratios from scores whose martingales are stopped at a public cumulative hazard: "
        "the bound of a record does not depend on the coefficients.",
        ("test_inference.py::test_noise_for_the_first_iterate_is_too_little_for_later_ones",),
        elsewhere=("algorithms/test_hazards.py::test_no_record_adds_more_than_its_bound",),
    ),
    Entry(
        "I-2",
        ENGINEERING,
        "`fdp_cox`: noise of every server",
        "The bound goes as log(n)/n, but a loop keeps the last server's for all: beside one of "
        "10,000 records, a server of 100 gets noise for a 26th of what one record moves.",
        "Sums are released, not means: a record moves the sum of a small party no further than "
        "that of a large one.",
        ("test_inference.py::test_the_sensitivity_of_one_server_is_used_for_all",),
        elsewhere=(
            "releases/test_scaled_sum.py::test_one_record_moves_it_no_further_than_it_says",
        ),
    ),
)

_SLIPS = runpy.run_path(str(Path(__file__).parent / "slips.py"))["LINES"]
ENTRIES = (*PRIVACY, *(Entry(*line[:6], elsewhere=line[6]) for line in _SLIPS))
