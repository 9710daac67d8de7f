"""From a released model, or posterior, back to its records."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unisono.attacks import model_inversion
from unisono.errors import InvalidInput
from unisono.problems.gaussian_family import Natural, gaussian, prior
from unisono.problems.networks import logistic

_coins = np.random.default_rng(14)
ROWS, TARGETS = _coins.normal(size=(7, 4)), _coins.normal(size=7)
STD = 0.5


def _posterior(count):
    """The exact posterior of the first records, as mean and covariance are published."""
    first = prior(4, 0.2, 3.0, full=True)
    rows, targets = ROWS[:count], TARGETS[:count]
    precision = first.precision + rows.T @ rows / STD**2
    shift = first.shift + rows.T @ targets / STD**2
    covariance = np.linalg.inv(precision)
    return gaussian(covariance @ shift, covariance), first


def test_a_posterior_holds_the_sufficient_statistics():
    found = model_inversion.statistics_of(*_posterior(7), STD)
    np.testing.assert_allclose(found.gram, ROWS.T @ ROWS, atol=1e-10)
    np.testing.assert_allclose(found.moment, ROWS.T @ TARGETS, atol=1e-10)


def test_two_posteriors_show_who_joined():
    joined = model_inversion.newcomer(_posterior(6)[0], _posterior(7)[0], STD)
    sign = np.sign(joined.row @ ROWS[6])
    np.testing.assert_allclose(sign * joined.row, ROWS[6], atol=1e-8)
    assert sign * joined.target == pytest.approx(TARGETS[6], abs=1e-8)


def test_a_mean_field_posterior_is_refused():
    diagonal = Natural(np.ones(3), np.ones(3))
    with pytest.raises(InvalidInput, match="diagonal"):
        model_inversion.statistics_of(diagonal, diagonal, 1.0)


def _classifier():
    """Three public directions; class c lights pixels 3c .. 3c + 2."""
    network = logistic(9, 3)
    weights = np.kron(np.eye(3), np.ones((3, 1))).astype(np.float32)
    parameters = {"weights": 4 * jnp.asarray(weights), "bias": jnp.zeros(3)}
    return lambda rows: network.predict(parameters, rows)


def test_a_class_looks_like_its_records():
    image = model_inversion.class_image(_classifier(), 1, np.full(9, 0.5), weight=0.01)
    truth = np.kron([0, 1, 0], np.ones(3))
    assert np.corrcoef(image, truth)[0, 1] > 0.95
    assert image.min() >= 0
    assert image.max() <= 1
    # A heavy prior stays at the start.
    kept = model_inversion.class_image(_classifier(), 1, np.full(9, 0.5), weight=1e4)
    np.testing.assert_allclose(kept, 0.5, atol=1e-3)


@pytest.mark.parametrize("secret", [0.0, 1.0])
def test_confidences_betray_a_missing_attribute(secret):
    predict = _classifier()

    def confidences(rows):
        return jax.nn.softmax(predict(jnp.asarray(rows, jnp.float32)))

    person = np.array([0.2, 0.1, secret, 0.4, 0.3, 0.2, 0.1, 0.3, 0.2])
    asked = np.where(np.arange(9) == 2, np.nan, person)
    found, chances = model_inversion.missing_attribute(
        confidences, confidences(person[None])[0], asked, 2, [0.0, 1.0]
    )
    assert found == secret
    assert chances.max() > 0.99
    # A prior that is certain is not overruled.
    sure, _ = model_inversion.missing_attribute(
        confidences, confidences(person[None])[0], asked, 2, [0.0, 1.0], prior=[1.0, 0.0]
    )
    assert sure == 0.0


def test_what_cannot_be_inverted_is_refused():
    with pytest.raises(InvalidInput, match="one weight"):
        model_inversion.missing_attribute(lambda rows: rows, [0.0], [0.0], 0, [0.0], prior=[-1.0])
    with pytest.raises(InvalidInput, match="low below high"):
        model_inversion.class_image(_classifier(), 1, np.ones(9), low=1.0, high=0.0)
