"""Errata that cost no privacy: wrong mathematics, slips of notation, and claims made precise.

Each is (id, severity, where, what is wrong, what we do, tests here, tests elsewhere), read by
`registry.py`. Lines of severity HOLDS found nothing wrong; they are here because the claim needs a
condition or a constant to be used.
"""

WRONG = "wrong, but no privacy is lost"
NOTATION = "a slip of notation"
HOLDS = "holds, made precise"

EARLY, LATE = "test_slips_000_002.py::", "test_slips_003_004.py::"

LINES = (
    # ------------------------------------------------------------------ source 000
    (
        "E000-1",
        NOTATION,
        "definition of neighbours",
        '"Presence or absence" in the text, replacement in the proofs: two promises.',
        "Every claim names its relation, and events carry the sensitivity of each.",
        (EARLY + "test_one_release_has_a_price_for_each_relation",),
        (),
    ),
    (
        "E000-4",
        NOTATION,
        "definition of sensitivity",
        '"Depends only on the algorithm": it depends on what a record can be.',
        "Bounds are public and enforced by clipping; without them there is no answer.",
        (EARLY + "test_the_same_algorithm_on_a_wider_domain_needs_more_noise",),
        (),
    ),
    (
        "E000-6",
        WRONG,
        "proof of the sensitivity of a minimiser",
        "‖∇g‖ ≤ ‖x - x'‖/n is 0 when only the label flips, while the gradient moves by ‖x‖/n.",
        "‖c x - c' x'‖ ≤ |c|‖x‖ + |c'|‖x'‖ ≤ 2; the final bound 2G/(nλ) stands.",
        (EARLY + "test_flipping_a_label_moves_the_gradient_while_the_rows_stay",),
        (
            "algorithms/test_convex_output.py::"
            "test_neighbours_are_never_further_apart_than_the_sensitivity",
        ),
    ),
    (
        "E000-7",
        NOTATION,
        "proof of the aggregation theorem",
        "A loss that is strongly convex and Lipschitz everywhere does not exist; a sum is missing.",
        "G is that of the loss without its regulariser, the strong convexity that of the sum.",
        (EARLY + "test_a_strongly_convex_loss_is_not_lipschitz",),
        (),
    ),
    # ------------------------------------------------------------------ source 001
    (
        "E001-1",
        HOLDS,
        "Fact 1.3, groups",
        "Right where δ = 0; with δ > 0 a group of k has δ(e^{kε} - 1)/(e^ε - 1), more than kδ.",
        "`group_pure` and `group_approximate`; on the exact curve kμ, which says more.",
        (EARLY + "test_groups_pay_by_their_size",),
        ("accounting/test_theorems.py::test_group_privacy",),
    ),
    (
        "E001-2",
        NOTATION,
        "proof of Theorem 2.1",
        'The last "=" is "≤": between two answers the ratio of densities is smaller.',
        "Costs are suprema.",
        (EARLY + "test_the_ratio_of_laplace_densities_stays_below_its_bound",),
        (),
    ),
    (
        "E001-3",
        WRONG,
        "accuracy of the histogram",
        "With enough records every count is said to be right up to a factor; a cell with one "
        "record drowns in noise of 2/ε however many there are.",
        "Intervals are additive, and hold for all cells at once.",
        (EARLY + "test_a_rare_cell_drowns_however_many_records_there_are",),
        ("experiments/test_constructed.py::test_failure_rate_of_the_corollary_by_hand",),
    ),
    (
        "E001-6",
        WRONG,
        "Fact 2.7, accuracy of Gaussian noise",
        "√log(1/δ) is missing for noise that is calibrated to (ε, δ).",
        "The exact quantile, below σ√(2 log(2d/η)), with the σ that was drawn.",
        (EARLY + "test_gaussian_accuracy_needs_the_noise_that_was_added",),
        (),
    ),
    # ------------------------------------------------------------------ source 002
    (
        "E002-2",
        NOTATION,
        "Laplace mechanism",
        "A location μ is left open: it only shifts answers. Randomized response is not its core.",
        "Noise is centred.",
        (EARLY + "test_noise_is_centred",),
        (),
    ),
    (
        "E002-3",
        HOLDS,
        "eqs. (3.4)-(3.9)",
        "Right given the right Δ, and wrong by its factor given another (E002-1).",
        "The sensitivity stands beside the function whose sensitivity it is.",
        (EARLY + "test_the_laplace_proof_holds_for_the_right_sensitivity",),
        (),
    ),
    (
        "E002-4",
        WRONG,
        "eq. (4.3)",
        "The sum over units runs to the batch size, W is a vector, and the weights a_j are called "
        "the outputs of neurons.",
        "f(x) = Σ_j a_j σ(w_j·x) over m units, W of shape (m, d).",
        (EARLY + "test_the_network_sums_over_its_units",),
        (),
    ),
    (
        "E002-5",
        WRONG,
        "eqs. (4.4)-(4.6)",
        "The gradients lack the factors 2 and 2a_j, and have wrong dimensions.",
        "2rσ(w_j·x) by a_j, and 2a_j rσ'(w_j·x)x by w_j.",
        (EARLY + "test_gradients_by_finite_differences",),
        (
            "problems/test_networks.py::test_gradients_of_the_two_layer_network",
            "attacks/test_victim.py::test_the_gradient_is_that_of_the_corrected_formulas",
        ),
    ),
    (
        "E002-6",
        WRONG,
        "section 4.3, the model",
        "y_i ~ N(0, I_d), which is a vector: the weights are meant.",
        "w_j ~ N(0, I_d), and labels are numbers.",
        (EARLY + "test_weights_are_normal_and_labels_are_numbers",),
        (),
    ),
    (
        "E002-9",
        WRONG,
        "eq. (4.9)",
        "The bound on a hidden gradient leaves out |r a_j σ'|; with a_j = 1/m the sum over units "
        "is of the order √d, not m√d.",
        "Bounds from public weights hold each factor.",
        (EARLY + "test_hidden_gradients_do_not_grow_with_the_units",),
        (),
    ),
    (
        "E002-11",
        WRONG,
        "noise after eq. (4.10)",
        '"Magnitude d√m/ε²" is neither the deviation √2 m√d/ε, nor the variance 2m²d/ε², nor the '
        "length √2 m^1.5 d/ε of the noise.",
        "Noise is reported as the standard deviation that was drawn.",
        (EARLY + "test_noise_of_the_network_in_numbers",),
        (
            "experiments/test_laplace_gradients.py::"
            "test_noise_of_each_method_has_the_scale_that_was_paid_for",
        ),
    ),
    (
        "E002-14",
        NOTATION,
        "Table 1",
        'Upper bounds on the error of *one* attack are headed "complexity"; p is the chance to '
        "be kept, which is not said.",
        "Exponents are fitted, not believed (`unisono reproduce table-1`); of all rows DP-SGD "
        "alone has an epsilon.",
        (EARLY + "test_only_one_row_of_table_1_is_a_defence",),
        (
            "experiments/test_table_1.py::test_every_exponent_is_as_expected",
            "attacks/test_defences.py::test_dropout_keeps_with_probability_p",
            "attacks/test_tensor.py::test_error_falls_as_one_over_root_m",
        ),
    ),
    # ------------------------------------------------------------------ source 003
    (
        "E003-3",
        HOLDS,
        "eqs. (2.9)-(2.16)",
        "Right for add-or-remove and Poisson; conversion is loose (10.08 for 9.33; exact 8.59).",
        "As published, beside its tight conversion and the exact curve.",
        (LATE + "test_the_moments_are_those_of_the_larger_direction",),
        ("accounting/test_moments.py::test_closed_form_is_the_larger_integral",),
    ),
    (
        "E003-4",
        NOTATION,
        "section 2.1.2",
        "A note lists Δ, q and δ or ε as what fixes the values. The noise is Δσ, so σ is the ratio "
        "already and Δ drops out; σ and the number of steps are what is missing.",
        "Events hold the noise and the sensitivity; their ratio is accounted.",
        (LATE + "test_only_ratios_enter_the_account",),
        (
            "accounting/test_moments.py::"
            "test_values_do_not_depend_on_the_sensitivity_but_relation_does",
        ),
    ),
    (
        "E003-10",
        WRONG,
        "eq. (2.23)",
        "argmax of a divergence is printed for argmin.",
        "F = log Z - KL(q ‖ tilted): F is climbed, KL falls.",
        (LATE + "test_the_local_step_minimises_the_divergence",),
        (),
    ),
    (
        "E003-11",
        HOLDS,
        "eq. (2.27)",
        "Holds where p Π t_m is normalised; otherwise log Z_q is missing.",
        "Free energies are compared for normalised q only.",
        (LATE + "test_free_energies_of_unnormalised_factors_miss_a_constant",),
        ("algorithms/test_pvi.py::test_local_free_energies_add_up_to_the_global_one",),
    ),
    (
        "E003-12",
        WRONG,
        "eq. (2.28)",
        "Parties at their local optimum are said to be at a global one: the point is stationary, "
        "and can be a minimum (μ = 0 where ±1.371 is best).",
        "Said in the documentation; true for conjugate models and concave free energies.",
        (LATE + "test_a_joint_local_optimum_can_be_a_global_minimum",),
        (
            "algorithms/test_pvi.py::"
            "test_joint_local_maxima_need_not_maximise_the_global_free_energy",
        ),
    ),
    (
        "E003-13",
        NOTATION,
        "eq. (2.21)",
        "That the other factors stay as they are is left out.",
        "One turn changes one factor.",
        (LATE + "test_one_turn_changes_one_factor",),
        (),
    ),
    (
        "E003-14",
        NOTATION,
        "Algorithm 3, line 8, eqs. (3.6) and (3.7)",
        "λ⁽ⁱ⁾ for λ⁽ⁱ⁻¹⁾, a missing /C; and factors add up in natural parameters only.",
        "Updates travel as changes of natural parameters.",
        (LATE + "test_changes_add_up_in_natural_parameters_only",),
        (),
    ),
    (
        "E003-15",
        HOLDS,
        "Algorithm 3, the learning rate",
        "Multiplying clipped update and noise by η changes no privacy (zero-out σ, replace-one "
        "σ/2).",
        "As said.",
        (LATE + "test_a_common_factor_is_free",),
        (),
    ),
    (
        "E003-17",
        HOLDS,
        'section 3.2.2, "weakens by √M"',
        "μ grows by √M exactly; ε by about M where μ is large (M = 20: 191).",
        "Viewers of single messages are charged for single messages.",
        (LATE + "test_single_messages_are_weaker_by_the_root_of_m",),
        (),
    ),
    (
        "E003-18",
        HOLDS,
        'section 3.2.2, "(M - 1)/M"',
        "The variance is multiplied by (M - t)/M, so μ by √(M/(M - t)): 8.59 becomes 20.65 at "
        "t = 15 of 20.",
        "Shares have variance total / h for h honest survivors, by the party's own count.",
        (LATE + "test_colluders_take_their_noise_with_them",),
        ("accounting/test_gaussian.py::test_golden_collusion",),
    ),
    (
        "E003-19",
        HOLDS,
        "eq. (3.8)",
        "Right; but a promise to a shard is, as it stands, one to each of its records.",
        "Groups by tμ, which says far more than the pair (tε, ...).",
        (LATE + "test_a_promise_to_groups_is_a_promise_to_records",),
        ("accounting/test_gaussian.py::test_group",),
    ),
    (
        "E003-20",
        NOTATION,
        "eq. (4.4)",
        "A = μ²/(2σ²) - ln σ: the sign is wrong (a density of 0.75 for 0.19).",
        "+ ln σ.",
        (LATE + "test_the_normaliser_has_a_plus",),
        ("problems/test_gaussian_family.py::test_the_printed_normaliser_has_the_wrong_sign",),
    ),
    (
        "E003-21",
        WRONG,
        "eq. (4.17)",
        "Two halves are missing: one party ends at twice the precision, several diverge.",
        "Gradients are tested against derivatives of the free energy.",
        (LATE + "test_the_variance_gradient_has_its_halves",),
        (
            "experiments/test_thesis_figures.py::"
            "test_a_climb_without_noise_ends_at_the_posterior_and_the_printed_one_does_not",
        ),
    ),
    (
        "E003-22",
        WRONG,
        'eqs. (4.19)-(4.21), "unbiased"',
        "Clipping biases downwards and max{0, ·} upwards, by s[φ(u) - uΦ(-u)].",
        "Raised once, after the sum, and counted; `unisono reproduce clamp-bias` plots it.",
        (LATE + "test_raising_to_zero_biases_upwards",),
        (
            "algorithms/test_pvi_analytic.py::test_placements_differ_by_the_bias_of_raising",
            "experiments/test_thesis_figures.py::test_the_clamps_bias_is_the_mean_of_its_law",
        ),
    ),
    (
        "E003-23",
        WRONG,
        "figure 4.3, text",
        "|mean| is said to be underestimated: its median is right, its trimmed mean too large, "
        "only its mode lower.",
        "`unisono reproduce fig4.3` prints all three.",
        (LATE + "test_the_mean_is_over_rather_than_underestimated",),
        ("experiments/test_fig4_2_and_4_3.py::test_modes_and_medians_by_simulation",),
    ),
    (
        "E003-24",
        NOTATION,
        "chapter 4, text and captions",
        'η₁/η₂ for η₂/η₁, "unbiased" for "biased". The captions of figures 4.5 and 4.7 say '
        "C = 2, which is not in 4.4's grid. For 4.5 that is no contradiction: the text's median KL "
        "of 22 lies well inside what the noise alone gives at its C = 0.25 (17 to 32) and at C = 2 "
        '(17 to 40). For 4.7 one clip cannot be both "extremes" of the text.',
        "mean = shift / precision; both figures are run at C = 0.25 and at C = 2, 4.7 also at 64.",
        (
            LATE + "test_the_mean_is_shift_over_precision",
            LATE + "test_the_captions_clip_fits_the_text",
        ),
        ("experiments/test_thesis_figures.py::test_a_figure_shows_what_it_must",),
    ),
    (
        "E003-25",
        WRONG,
        "section 4.2.2, iterating",
        "The sums do not depend on q: T rounds buy the same T times, and damping keeps 19 of 78.",
        "`one-shot-regression` releases them once.",
        (LATE + "test_one_release_costs_what_the_iteration_does_and_is_less_noisy",),
        (),
    ),
    (
        "E003-26",
        WRONG,
        "the thesis's code",
        "The posterior to compare with takes a standard deviation for a variance.",
        "The prior's variance is 25; the old figure's is there to compare.",
        (LATE + "test_a_standard_deviation_is_not_a_variance",),
        (),
    ),
    # ------------------------------------------------------------------ source 004
    (
        "E004-1",
        NOTATION,
        "definitions and steps",
        "Dimensions, indices and a bracket; that b_k is drawn anew by each party in each round.",
        "Noise is indexed by party and step, and no key is used twice (X-2).",
        (LATE + "test_every_party_and_round_has_noise_of_its_own",),
        ("errata/test_engineering.py::test_a_grant_gives_fresh_noise_at_every_step",),
    ),
    (
        "E004-4",
        HOLDS,
        "amplification in Theorem 1",
        "(e^{ε₀} - 1)/n ≤ 2ε₀/n holds up to ε₀ = 1.",
        "log(1 + (e^{ε₀} - 1)/n), for the sampler and relation where it is proved.",
        (LATE + "test_amplification_by_sampling_one_of_n",),
        ("accounting/test_theorems.py::test_004_amplification_factor",),
    ),
    (
        "E004-6",
        HOLDS,
        "Lemmas 1 and 2, eqs. (4), (9), (10)",
        "Valid, Lemma 2 for ε < 1; the orders are those of Shamir and Zhang 2013.",
        "With every constant written out in `algorithms.bounds`.",
        (LATE + "test_the_lemmas_and_orders_that_hold",),
        ("algorithms/test_convex_sgd.py::test_bounds_have_the_printed_orders_and_refuse_nonsense",),
    ),
    (
        "E004-8",
        HOLDS,
        "Theorem 3, step 4",
        "The worst party's ε is right: a record lies with one party. Independence of the records, "
        "which is assumed, is not needed; that of the noise is.",
        "Every ledger is charged for its own releases; policies declare disjoint parties (X-8).",
        (LATE + "test_parties_with_different_records_do_not_add_up",),
        (),
    ),
    (
        "E004-9",
        HOLDS,
        "eq. (11)",
        "Valid for averages and loose; with private noise a floor remains however long the run.",
        "The weighted average, with its bound 2G²/(nΔ(T + 1)).",
        (LATE + "test_private_noise_leaves_a_floor_however_long_the_run",),
        (),
    ),
    (
        "E004-10",
        WRONG,
        "eq. (12)",
        "The noise term lacks mp: excess 1.32 where it says 0.1.",
        "|θ₀ - θ*|²/(2kη) + (η/2)(n²L² + mpσ²).",
        (LATE + "test_the_constant_step_bound_lacks_m_p",),
        (
            "algorithms/test_convex_sgd.py::"
            "test_corrected_equation_12_holds_where_the_printed_one_fails",
        ),
    ),
)
