"""The laboratory: its parts at small sizes, and one shared run (slow). All seeds are fixed."""

import json
import math

import numpy as np
import pytest

from unisono.attacks import closed_form, laboratory
from unisono.attacks.laboratory import cases, members, pictures, reconstruction, tensors, testbed
from unisono.attacks.laboratory.results import plain
from unisono.attacks.scoring import match, mean_baseline
from unisono.errors import InvalidInput

SMALL = laboratory.LaboratoryEffort(
    neurons=(4000, 6000, 8000),
    tensor_seeds=1,
    private_batches=3,
    trials=12,
    runs=100,
    private_runs=300,
    rounds=5,
    curve_digits=1,
    multipliers=(0.001, 0.61),
    parties=(1, 2),
)


@pytest.fixture(scope="module")
def outcome():
    said = []
    found = laboratory.run(
        laboratory.chosen("none,pruning,dp-8"), effort=SMALL, progress=lambda *one: said.append(one)
    )
    assert said[-1] == ("done", 4, 4)
    return found


@pytest.fixture(scope="module")
def rows(outcome):
    return {row.name: row for row in outcome.laboratory.rows}


def _case(name):
    return laboratory.chosen(name)[0]


# ------------------------------------------------------------- the run


@pytest.mark.slow
def test_nothing_protects_nothing(rows):
    row = rows["none"]
    assert row.inversion.error < 1e-4
    assert row.closed_form.error < 1e-4
    assert row.membership.area == 1
    assert math.isinf(row.privacy.epsilon_round)
    assert row.privacy.empirical_direct == row.privacy.ceiling > 2


@pytest.mark.slow
def test_adaptive_attackers_undo_pruning_and_naive_ones_do_not(rows):
    row = rows["pruning"]
    assert row.inversion.error < 1e-3 < 0.1 < row.inversion.naive_error
    assert row.closed_form.error < 0.7 * row.closed_form.naive_error


@pytest.mark.slow
def test_dp_sgd_at_epsilon_8_leaves_the_mean_image(outcome, rows):
    """With the control: labels leak a little, and blind labels are below 1 as well, for the best
    assignment counts. Three batches of five scatter by about 0.05."""
    row, blind = rows["dp-8"], outcome.laboratory.baseline.blind_ratio
    assert row.privacy.epsilon_round < 8
    assert row.inversion.ratio > 1
    assert row.closed_form.ratio > 1
    assert row.tensor.polished > 1
    assert 0.85 < blind < 1
    assert row.labels_ratio > blind - 0.15


@pytest.mark.slow
def test_audits_stay_below_the_accountant(rows):
    """False-alarm rate 0.05, at a fixed seed."""
    shown = rows["dp-8"].privacy
    assert 1 < max(shown.empirical_direct, shown.empirical_model_based) < shown.epsilon_round
    assert shown.epsilon_training < shown.epsilon_round


@pytest.mark.slow
def test_the_document_is_plain_json(outcome):
    document = laboratory.document(outcome.laboratory)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["rows"][0]["privacy"]["epsilon_round"] == "inf"
    assert document["rows"][0]["tensor"]["verdict"] in ("holds", "loose", "violated")
    assert document["rows"][1]["tensor"]["verdict"] is None
    assert plain({"a": (math.nan, -math.inf)}) == {"a": [None, "-inf"]}


@pytest.mark.slow
def test_pictures_are_small_pngs(outcome):
    for picture in (
        pictures.grid(outcome.laboratory, outcome.gallery),
        pictures.axis(outcome.laboratory),
    ):
        assert picture.startswith(b"\x89PNG")
        assert 5_000 < len(picture) < 250_000


@pytest.mark.slow
def test_curves_start_with_the_record_and_end_with_nothing(outcome):
    found = outcome.laboratory
    assert found.by_epsilon[0].error < 0.2 < found.single_baseline < found.by_epsilon[-1].error
    assert found.by_epsilon[-1].at < 8 < found.by_epsilon[0].at
    assert found.by_parties[0].error < 1e-3
    assert found.by_parties[1].control < found.by_parties[0].control


# ------------------------------------------------------------- what attackers read


def test_attacks_read_what_was_seen_and_nothing_else(monkeypatch):
    """The victim's records are destroyed between the exchange and the attack."""
    place, (truth, targets) = testbed.images(), testbed.secrets()
    wide = testbed.moments(4000)
    stretched, signs = testbed.stretched(truth), testbed.even_or_odd(targets)
    victims = [place.victim(truth.copy(), targets.copy()), wide.victim(stretched.copy(), signs)]
    nothing = _case("none").make(place, 5)
    seen, moments = (nothing.observe(one, np.random.default_rng(0)) for one in victims)
    for victim in victims:
        victim.rows[:], victim.targets[:] = np.nan, np.nan

    def forbidden(*arguments):
        raise AssertionError("an attack asked for the secrets")

    monkeypatch.setattr(testbed, "secrets", forbidden)
    found = reconstruction.inverted(place, seen, 5, adaptive=True)
    assert match(found.rows, truth).error < 1e-4
    start = tensors.by_moments(wide, moments, 5)
    assert match(start, stretched).error < 0.9


def test_pruning_falls_to_the_adaptive_attacker_only():
    place, (truth, targets) = testbed.images(), testbed.secrets()
    victim = place.victim(truth, targets)
    seen = _case("pruning").make(place, 5).observe(victim, np.random.default_rng(0))
    errors = [
        match(reconstruction.inverted(place, seen, 5, adaptive).rows, truth).error
        for adaptive in (True, False)
    ]
    assert errors[0] < 1e-3 < 0.1 < errors[1]


def test_dp_sgd_at_epsilon_8_shows_no_pixel_and_hardly_a_label():
    """Closed form on 5 records alone, and labels of 40 batches: the ratio's error is about 0.02."""
    place, case = testbed.images(), _case("dp-8")
    assert case.make(place, 5).epsilon(1e-5, 5, 1) < 8
    truth, targets = testbed.secrets()
    mean = mean_baseline(place.rows, truth).error
    for number in range(5):
        own = slice(number, number + 1)
        victim = place.victim(truth[own], targets[own])
        seen = case.make(place, 1).observe(victim, np.random.default_rng(number))
        assert match(reconstruction.quotient(seen, True)[None], truth[own]).error > mean
    read, blind = [], []
    for number in range(40):
        truth, targets = testbed.secrets(number)
        mean = mean_baseline(place.rows, truth).error
        victim = place.victim(truth, targets)
        seen = case.make(place, 5).observe(victim, np.random.default_rng(number))
        read.append(match(reconstruction.by_labels(place, seen, 5).rows, truth).error / mean)
        blind.append(reconstruction.blind_error(place, truth, draws=10, seed=number) / mean)
    assert 0.9 < np.mean(blind) < 1.05
    assert np.mean(blind) - 0.15 < np.mean(read) < np.mean(blind) + 0.05


def test_membership_is_guessing_under_strong_noise():
    """40 pairs: the area of blind guessing scatters by 0.065, so 0.8 is 4.6 deviations away."""
    place = testbed.images(0, 8)
    strong, weak = (_case(name).make(place, 5) for name in ("dp-1", "dp-weakest"))
    assert members.tested(place, strong, 40, 0).adaptive.area < 0.8
    assert members.tested(place, weak, 40, 0).adaptive.area > 0.95


# ------------------------------------------------------------- the tensor method


def _moment_error(name, neurons, number=0):
    place = testbed.moments(neurons, number)
    images, labels = testbed.secrets()
    truth = testbed.stretched(images)
    victim = place.victim(truth, testbed.even_or_odd(labels))
    seen = _case(name).make(place, 5).observe(victim, np.random.default_rng(number))
    return match(tensors.by_moments(place, seen, 5), truth).error


def test_batch_clipping_changes_nothing():
    assert _moment_error("clip-batch", 8000) == pytest.approx(_moment_error("none", 8000), rel=1e-3)


def test_more_neurons_help_unless_there_is_dp_sgd():
    plainly = _moment_error("none", 32000) / _moment_error("none", 8000)
    private = _moment_error("dp-weakest", 32000) / _moment_error("dp-weakest", 8000)
    assert plainly < 0.75
    assert 0.75 < private < 1.35


@pytest.mark.slow
def test_masks_of_a_step_are_undone_by_the_adaptive_only():
    place = testbed.moments(16000)
    images, labels = testbed.secrets()
    truth = testbed.stretched(images)
    victim = place.victim(truth, testbed.even_or_odd(labels))
    seen = _case("dropout-step").make(place, 5).observe(victim, np.random.default_rng(0))
    errors = [
        match(tensors.polished(place, seen, tensors.by_moments(place, seen, 5, a), a), truth).error
        for a in (True, False)
    ]
    assert errors[0] < 1e-4 < 0.1 < errors[1]


# ------------------------------------------------------------- parts


def test_closed_form_without_pruned_numbers():
    weights, bias = np.outer([1.0, 2.0, 3.0], [3.0, -1.0]), np.array([3.0, -1.0])
    pruned = weights * np.array([[1, 1], [1, 0], [0, 0]])
    found = closed_form.one_record(pruned, bias, pruned != 0)
    assert found == pytest.approx([1.0, 2.0, 0.0])
    assert closed_form.one_record(pruned, bias)[1] == pytest.approx(1.8)


def test_names_of_defences():
    assert [case.name for case in cases.chosen("dp-8, none")] == ["none", "dp-8"]
    assert cases.chosen(None) == cases.CASES
    assert {"none", "dp-8"} <= {case.name for case in cases.chosen(None, quick=True)}
    with pytest.raises(InvalidInput, match=r"called nonsense: choose from none, local-same"):
        cases.chosen("none,nonsense")


def test_secrets_are_not_public():
    data, (rows, _) = testbed.digits(), testbed.secrets()
    assert not any((data.rows == row).all(axis=1).any() for row in rows)
    assert mean_baseline(data.rows, rows).error == pytest.approx(0.55, abs=0.01)
