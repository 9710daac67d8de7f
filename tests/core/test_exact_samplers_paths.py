"""Double precision is only a filter: the fast and the exact path give the same bits.

Random keys almost never reach a decision boundary, so besides comparing whole outputs these tests
feed words placed on both sides of every boundary, and check each error bound against mpmath.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import special

from unisono.core.noise import (
    Keystream,
    bernoulli,
    bernoulli_exp,
    counting,
    discrete_gaussian,
    discrete_laplace,
    discrete_laplace_share,
    gaussian,
    laplace,
    poisson,
    polya,
    rounded_gaussian,
    skellam,
    successes,
    uniform_below,
)
from unisono.core.noise.coins import accept, accept_most
from unisono.core.noise.exact import (
    LazyUniform,
    fixed_point,
    floor_of,
    invert,
    is_below,
    log_factorial,
    normal_cumulative,
    rational,
    reals,
)
from unisono.core.noise.inversion import InversionTable, draw_from_table
from unisono.core.noise.negative_binomial import _polya_table
from unisono.core.noise.subset import permutation
from unisono.errors import InvalidInput

Sampler = Callable[..., NDArray[Any]]

CASES: list[tuple[Sampler, tuple[float, ...]]] = [
    *(
        (rounded_gaussian, (std,))
        for std in (1e-200, 0.3, 5.0, 257.0, 1024.0, 1025.0, 1e6, 2.0**55)
    ),
    *((discrete_gaussian, (std,)) for std in (1e-200, 0.3, 5.0, 60.0, 257.0, 1e6, 2.0**55)),
    *((discrete_laplace, (scale,)) for scale in (1e-200, 0.3, 9.0, 2.0**20, 2.0**21, 2.0**55)),
    *(
        (polya, args)
        for args in (
            (0.5, 0.3),
            (0.1, 30.0),
            (0.2, 1e6),
            (0.01, 2.0**50),
            (3e290, 0.0015),
        )
    ),
    *((discrete_laplace_share, args) for args in ((3.0, 7), (1e5, 3))),
    *((poisson, (mean,)) for mean in (1e-9, 0.3, 40.0, 3e4, 2.0**20 + 0.5, 2.0**49)),
    *((skellam, (variance,)) for variance in (0.3, 900.0, 2.0**40)),
    *((bernoulli, (p,)) for p in (0.0, 0.3, 1e-300, 1.0)),
]


@pytest.mark.parametrize(("sampler", "arguments"), CASES)
def test_fast_and_exact_paths_agree_bit_for_bit(
    sampler: Sampler, arguments: tuple[float, ...]
) -> None:
    for seed in (1, 2):
        key = seed.to_bytes(32, "big")
        fast, exact = Keystream(key), Keystream(key)
        left = sampler(fast, *arguments, (5, 6))
        right = sampler(exact, *arguments, (5, 6), always_exact=True)
        np.testing.assert_array_equal(left, right)
        assert left.shape == (5, 6)
        assert left.dtype == right.dtype
        assert fast.position == exact.position


@settings(max_examples=40, deadline=None)
@given(
    key=st.binary(min_size=32, max_size=32),
    scale=st.floats(1e-3, 2.0**55),
    sampler=st.sampled_from([rounded_gaussian, discrete_gaussian, discrete_laplace]),
)
def test_paths_agree_at_any_scale(key: bytes, scale: float, sampler: Sampler) -> None:
    left = sampler(Keystream(key), scale, 2)
    np.testing.assert_array_equal(left, sampler(Keystream(key), scale, 2, always_exact=True))
    np.testing.assert_array_equal(left, sampler(Keystream(key), scale, 2))


class Scripted(Keystream):
    """A keystream whose first words are given."""

    def __init__(self, script: list[int]) -> None:
        super().__init__(bytes(32))
        self._script = script

    def words(self, count: int) -> NDArray[np.uint64]:
        words = super().words(count).copy()
        given, self._script = self._script[:count], self._script[count:]
        words[: len(given)] = given
        return words


TABLES: list[tuple[str, InversionTable]] = [
    *((f"rounded {std}", gaussian._rounded_table(std)) for std in (0.05, 0.3, 1.0, 20.0, 256.0)),
    *((f"discrete {std}", gaussian._discrete_table(std)) for std in (0.05, 0.3, 1.0, 20.0, 100.0)),
    *(
        (f"poisson {mean}", counting.poisson_table(counting._rational_mean(mean)))
        for mean in (1e-9, 0.3, 50.0, 1e4)
    ),
    *(
        (f"polya {shape} {scale}", table)
        for shape, scale in ((Fraction(1, 3), 0.3), (Fraction(1, 10), 20.0), (Fraction(5), 90.0))
        if (table := _polya_table(shape, scale)) is not None
    ),
]


@pytest.mark.parametrize("table", [a[1] for a in TABLES], ids=[a[0] for a in TABLES])
def test_thresholds_enclose_the_exact_law(table: InversionTable) -> None:
    """certainly_below <= 2^64 P(X <= k) <= certainly_above, against interval arithmetic."""
    size = table.certainly_below.size
    for i in sorted({*range(0, size, max(1, size // 25)), size - 1}):
        low, high = fixed_point(table.cumulative(reals(256), table.first + i), 64)
        assert int(table.certainly_below[i]) <= low, i
        # The last representable bound stands for 2^64 and is never trusted (see the table).
        assert int(table.certainly_above[i]) >= min(high, 2**64 - 1), i
    assert np.all(np.diff(table.certainly_above.astype(object)) >= 0)


@pytest.mark.parametrize("table", [a[1] for a in TABLES], ids=[a[0] for a in TABLES])
def test_words_beside_every_threshold_get_the_exact_verdict(table: InversionTable) -> None:
    size = table.certainly_below.size
    chosen = sorted({*range(0, size, max(1, size // 6)), size // 2, size // 2 + 1, size - 1})
    words = {0, 1, 2**63, 2**64 - 2, 2**64 - 1}
    for i in chosen:
        if i >= size:
            continue
        below, above = int(table.certainly_below[i]), int(table.certainly_above[i])
        words |= {below - 1, below, (below + above) // 2, above - 1, above, above + 1}
    script = sorted(word for word in words if 0 <= word < 2**64)
    fast = draw_from_table(Scripted(script), table, len(script), False)
    exact = draw_from_table(Scripted(script), table, len(script), True)
    np.testing.assert_array_equal(fast, exact)
    assert np.all(np.diff(fast) >= 0)  # inversion is monotone in U


@pytest.mark.parametrize("std", [257.0, 300.0, 511.9, 1e6, 2.0**40 + 1])
def test_the_block_hat_is_never_too_low(std: float) -> None:
    """E >= 0 at every block and every place in it, in fractions, and the height is not wasted."""
    blocks = gaussian._blocks(std)
    assert Fraction(std) ** 2 == blocks.inner * 4**blocks.log_size
    lowest = min(
        blocks.exact_height
        + (j - Fraction(1, 2)) ** 2 / (2 * blocks.inner)
        - j**2 / (2 * blocks.outer)
        for j in range(4000)
    )
    assert 0 <= lowest < Fraction(1, 10**6)


@pytest.mark.parametrize("rounded", [True, False])
@pytest.mark.parametrize("std", [300.0, 1e6, 2.0**40 + 1])
def test_block_words_beside_acceptance(std: float, rounded: bool) -> None:
    """Candidates and verdicts from a separate formula, at words beside exp(-E)."""
    blocks = gaussian._blocks(std)
    block_words, place_words, coin_words, candidates = [], [], [], []
    source = np.random.default_rng(5)
    for gap in (-(2**22), -(2**19), -3, 0, 3, 2**19, 2**22):
        for _ in range(6):
            first, place = (int(w) for w in source.integers(0, 2**64, 2, dtype=np.uint64))
            j = int(draw_from_table(Scripted([first]), blocks.table, 1, False)[0])
            b = Fraction(place, 2**64) - Fraction(1, 2)
            if rounded:
                candidates.append(math.floor((j + b) * 2**blocks.log_size + Fraction(1, 2)))
            else:
                candidates.append(math.floor((j + b) * 2**blocks.log_size))
                b = Fraction(candidates[-1], 2**blocks.log_size) - j
            energy = (j + b) ** 2 / blocks.inner - j**2 / blocks.outer
            energy = energy / 2 + 1 / (8 * (blocks.outer - blocks.inner))
            with mpmath.workprec(300):
                ratio = mpmath.mpf(energy.numerator) / energy.denominator
                edge = int(mpmath.floor(2**64 * mpmath.exp(-ratio)))
            block_words.append(first)
            place_words.append(place)
            coin_words.append(min(max(edge + gap, 0), 2**64 - 1))
    script = block_words + place_words + coin_words
    outcomes = [
        gaussian._propose(Scripted(list(script)), blocks, len(candidates), rounded, exactly)
        for exactly in (False, True)
    ]
    np.testing.assert_array_equal(outcomes[0][0], candidates)
    np.testing.assert_array_equal(outcomes[0][1], outcomes[1][1])
    assert outcomes[0][1][:18].all()
    assert not outcomes[0][1][24:].any()


@pytest.mark.parametrize("largest", [0.02, 0.5, 30.0])
def test_verdicts_do_not_depend_on_what_is_settled_first(largest: float) -> None:
    """The verdicts of `accept`, whose every draw compares with its own exponent, at words of all
    sizes and beside exp(-largest), where a draw begins to need its own."""
    source = np.random.default_rng(6)
    exponents = np.append(source.uniform(0, largest, 500), [largest] * 12)
    edge = int(mpmath.floor(2**64 * mpmath.exp(-mpmath.mpf(largest))))
    gaps = (-(2**24), -(2**18), -2, -1, 0, 1, 2, 3, 2**17, 2**18, 2**24, 2**40)
    words = [int(word) for word in source.integers(0, 2**64, 500, dtype=np.uint64)]
    script = words + [min(max(edge + gap, 0), 2**64 - 1) for gap in gaps]

    def exact(real: Any, i: int) -> Any:
        return real.mpf(float(exponents[i]))

    plain = accept(Scripted(list(script)), exponents, 2.0**-46, exact, False)
    for exactly in (False, True):
        most = accept_most(
            Scripted(list(script)),
            len(exponents),
            largest,
            lambda places: exponents[places],
            2.0**-46,
            exact,
            exactly,
        )
        np.testing.assert_array_equal(most, plain)
    assert plain.any()
    assert not plain.all()


def beside(exponent: Any) -> list[int]:
    """Words well below, just below, just above and well above 2^64 exp(-exponent)."""
    edge = int(mpmath.floor(2**64 * mpmath.exp(-exponent)))
    return [max(edge - 2**40, 0), edge - 1, min(edge + 2, 2**64 - 1), min(edge + 2**40, 2**64 - 1)]


@pytest.mark.parametrize("scale", [2.0**20 + 1, 3e7, 2.0**45])
def test_laplace_block_words_beside_acceptance(scale: float) -> None:
    """exp(-E) is exp(-|k| / scale) over exp(-(|j| - 1) / s), in the blocks 0 and -1 as well."""
    source = np.random.default_rng(6)
    log_size = math.frexp(scale)[1] - 10
    first = [2**63, 2**63 - 2**53, *(int(w) for w in source.integers(0, 2**64, 8, dtype=np.uint64))]
    place = [int(w) for w in source.integers(0, 2**64, 10, dtype=np.uint64)]
    chosen = laplace._inverted(Scripted(list(first)), scale / 2.0**log_size, 10, True)
    assert {0, -1} <= set(chosen.tolist())
    k = [(int(j) << log_size) + (w >> (64 - log_size)) for j, w in zip(chosen, place, strict=True)]
    with mpmath.workprec(300):
        s = mpmath.mpf(scale) / 2**log_size
        coins = [
            beside(abs(mpmath.mpf(a)) / scale - (abs(int(j)) - 1) / s)
            for a, j in zip(k, chosen, strict=True)
        ]
    for side, verdict in enumerate((True, True, False, False)):
        script = first + place + [words[side] for words in coins]
        for exactly in (False, True):
            found, accepted = laplace._propose(Scripted(list(script)), scale, 10, exactly)
            assert found.tolist() == k
            assert accepted.tolist() == [verdict] * 10


@pytest.mark.parametrize("mean", [2.0**20 + 0.75, 1e9, 2.0**49 + 3])
def test_poisson_words_beside_acceptance(mean: float) -> None:
    """exp(-E) is the mass at k over the hat at k, from mpmath's own ln Gamma."""
    root, centre = math.sqrt(mean), math.floor(mean)
    steps = np.array([round(z * root) for z in (-6.0, -1.3, -0.4, 0.0, 0.01, 0.9, 1.0, 2.5, 9.0)])
    with mpmath.workprec(300):

        def log_mass(k: int) -> Any:
            return k * mpmath.log(mpmath.mpf(mean)) - mpmath.loggamma(k + 1)

        def ratio(k: int) -> Any:
            return log_mass(k) - log_mass(centre) + mpmath.mpf(abs(k - centre)) / root

        height = counting._height(mean)
        # No k does better than the height, and some k nearly reaches it.
        peak = max(ratio(centre + sign * round(root) + i) for sign in (1, -1) for i in range(-2, 3))
        assert 0 < height - peak < 1e-6
        coins = [beside(height - ratio(centre + int(step))) for step in steps]
    for side, verdict in enumerate((True, True, False, False)):
        script = [words[side] for words in coins]
        for exactly in (False, True):
            accepted = counting._accept(Scripted(list(script)), mean, steps, exactly)
            assert accepted.tolist() == [verdict] * steps.size


@pytest.mark.parametrize("scale", [0.3, 5.0, 1e4, 2.0**20])
def test_laplace_words_beside_boundaries(scale: float) -> None:
    """Boundaries of |X| lie at U = p^k / (1 + p) and its mirror image."""
    script: list[int] = []
    with mpmath.workprec(200):
        p = mpmath.exp(-1 / mpmath.mpf(scale))
        for k in (0, 1, 2, 7, int(3 * scale), int(20 * scale)):
            edge = int(mpmath.floor(2**64 * p**k / (1 + p)))
            for gap in (0, 1, 2**10, 2**18, 2**24):
                nearby = [edge - gap, edge + gap, 2**64 - 1 - edge - gap, 2**64 - 1 - edge + gap]
                script += [word for word in nearby if 0 <= word < 2**64]
    fast = discrete_laplace(Scripted(list(script)), scale, len(script))
    exact = discrete_laplace(Scripted(list(script)), scale, len(script), always_exact=True)
    np.testing.assert_array_equal(fast, exact)


def test_exp_coins_beside_thresholds() -> None:
    exponents, script = [], []
    for x in (1e-12, 0.1, 1.0, 3.7, 20.0, 43.0):
        with mpmath.workprec(200):
            edge = int(mpmath.floor(2**64 * mpmath.exp(-mpmath.mpf(x))))
        for gap in (0, 1, 2**8, 2**15, 2**20):
            for word in (edge - gap, edge + gap):
                if 0 <= word < 2**64:
                    exponents.append(x)
                    script.append(word)
    fast = bernoulli_exp(Scripted(list(script)), exponents)
    exact = bernoulli_exp(Scripted(list(script)), exponents, always_exact=True)
    np.testing.assert_array_equal(fast, exact)
    assert fast.any()
    assert not fast.all()


def test_bernoulli_reads_the_probability_to_its_last_bit() -> None:
    """p = 2^-70: the word 0 is undecided, and its further bits decide with odds 1 in 64."""
    verdicts = []
    for seed in range(640):
        stream = Keystream(seed.to_bytes(32, "big"))
        stream.words(1)
        uniform = LazyUniform(stream, 0, 0)
        verdicts.append(is_below(uniform, lambda real: rational(real, Fraction(1, 2**70))))
    # Binomial(640, 1/64) leaves [0, 35] with probability below 1e-8.
    assert 1 <= sum(verdicts) <= 35
    coins = bernoulli(Scripted([0] * 640), 2.0**-70, 640)
    assert 1 <= coins.sum() <= 35
    exact = bernoulli(Scripted([0] * 640), 2.0**-70, 640, always_exact=True)
    np.testing.assert_array_equal(coins, exact)


def test_error_bounds_hold_with_room_to_spare() -> None:
    """The library functions are at least eight times better than the bounds rely on."""
    z = -np.linspace(0.0, 10.0, 801)
    x = np.linspace(1e-3, 60.0, 801)
    u = np.exp(-np.linspace(0.001, 45.0, 801))
    with mpmath.workprec(120):

        def worst(values: NDArray[np.float64], exact: Callable[..., Any], at: Any) -> float:
            pairs = zip(values, at, strict=True)
            return max(float(abs(v / exact(mpmath.mpf(a)) - 1)) for v, a in pairs)

        assert worst(special.ndtr(z), mpmath.ncdf, z) < gaussian._NDTR_RELATIVE_ERROR / 8
        assert worst(np.exp(-x), lambda a: mpmath.exp(-a), x) < 2.0**-50
        assert worst(np.log(u), mpmath.log, u) < 2.0**-50
        assert worst(np.log1p(x / 100), mpmath.log1p, x / 100) < 2.0**-50
        assert worst(np.expm1(-x), lambda a: mpmath.expm1(-a), x) < 2.0**-50


@pytest.mark.parametrize("bits", [128, 512])
def test_exact_functions_enclose_mpmath(bits: int) -> None:
    real = reals(bits)
    with mpmath.workprec(2 * bits):
        for z in (Fraction(0), Fraction(1, 3), Fraction(-7, 2), Fraction(9), Fraction(-50)):
            exact = mpmath.ncdf(mpmath.mpf(z.numerator) / z.denominator)
            _assert_encloses(normal_cumulative(real, z), exact, 2.0 ** (8 - bits))
        for n in (0, 1, 5, 127, 128, 600, 10**9, 2**50):
            exact = mpmath.loggamma(n + 1)
            _assert_encloses(log_factorial(real, n), exact, 2.0 ** (70 - bits))


def _assert_encloses(interval: Any, exact: Any, width: float) -> None:
    low, high = (mpmath.mp.make_mpf(end) for end in interval._mpi_)
    assert low <= exact <= high
    assert high - low <= width


def test_poisson_candidates_far_away_get_exact_verdicts() -> None:
    """Beyond a quarter of the mean the doubles' formula is not used; below zero nothing is."""
    steps = np.array([-(2**21), -(2**20) - 1, -(2**20), 2**20, 0])
    verdicts = counting._accept(Keystream(bytes(32)), 2.0**20 + 0.5, steps, False)
    assert verdicts[:4].tolist() == [False] * 4


def test_inversion_finds_the_cell_from_any_guess() -> None:
    stream = Keystream(bytes(32))
    word = int(stream.words(1)[0])

    def cumulative(real: Any, k: int) -> Any:
        return normal_cumulative(real, Fraction(2 * k + 1, 2000))

    found = {invert(LazyUniform(stream, word, 0), cumulative, g) for g in (-9999, -71, 0, 5, 12345)}
    assert len(found) == 1
    assert floor_of(lambda real: real.pi * 100) == 314


REFUSED = [math.nan, math.inf, -math.inf, 0.0, -1.0, 2.0**57, "1", None, True, 10**400, 1j]


@pytest.mark.parametrize("value", REFUSED)
@pytest.mark.parametrize(
    "sampler", [rounded_gaussian, discrete_gaussian, discrete_laplace, poisson, skellam]
)
def test_bad_parameters_are_refused(sampler: Sampler, value: Any) -> None:
    stream = Keystream(bytes(32))
    with pytest.raises(InvalidInput):
        sampler(stream, value, 3)
    assert stream.position == 0


@pytest.mark.parametrize("value", REFUSED)
def test_bad_scales_of_shares_are_refused(value: Any) -> None:
    for call in (
        lambda: polya(Keystream(bytes(32)), 1.0, value, 3),
        lambda: discrete_laplace_share(Keystream(bytes(32)), value, 2, 3),
    ):
        with pytest.raises(InvalidInput):
            call()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0, "1", None, True, 1j])
def test_bad_shapes_shares_bounds_and_probabilities_are_refused(value: Any) -> None:
    for call in (
        lambda: polya(Keystream(bytes(32)), value, 1.0, 3),
        lambda: discrete_laplace_share(Keystream(bytes(32)), 1.0, value, 3),
        lambda: uniform_below(Keystream(bytes(32)), value, 3),
        lambda: bernoulli(Keystream(bytes(32)), value, 3),
        lambda: bernoulli_exp(Keystream(bytes(32)), np.array([value])),
    ):
        with pytest.raises(InvalidInput):
            call()


@pytest.mark.parametrize("size", [-1, (2, -1), 1.5, (1.0,), True, None, "3"])
def test_bad_sizes_are_refused(size: Any) -> None:
    for sampler, argument in (
        (rounded_gaussian, 1.0),
        (discrete_gaussian, 1e9),
        (discrete_laplace, 1.0),
        (poisson, 1.0),
        (skellam, 1.0),
        (bernoulli, 0.5),
        (uniform_below, 5),
    ):
        with pytest.raises(InvalidInput, match="size"):
            sampler(Keystream(bytes(32)), argument, size)


def test_limits_of_the_other_parameters() -> None:
    stream = Keystream(bytes(32))
    for call in (
        lambda: uniform_below(stream, 2**63 + 1, 1),
        lambda: uniform_below(stream, 0, 1),
        lambda: poisson(stream, 2.0**50, 1),
        lambda: bernoulli(stream, 1.5, 1),
        lambda: bernoulli_exp(stream, ["a"]),
        lambda: bernoulli_exp(stream, [2**63 - 1]),
        lambda: polya(stream, 0.0, 1.0, 1),
        lambda: polya(stream, 1e9, 1e9, 1),
        lambda: skellam(stream, 5e-324, 1),
    ):
        with pytest.raises(InvalidInput):
            call()


def test_empty_and_scalar_shapes() -> None:
    stream = Keystream(bytes(32))
    for sampler, argument in ((rounded_gaussian, 1.0), (discrete_gaussian, 1e9), (poisson, 1e9)):
        assert sampler(stream, argument, 0).shape == (0,)
        assert sampler(stream, argument, ()).shape == ()
        assert sampler(stream, argument, (0, 3)).shape == (0, 3)
    assert bernoulli_exp(stream, 0.5).shape == ()


def test_the_samplers_do_not_import_jax() -> None:
    import subprocess
    import sys

    code = "import sys, unisono.core.noise; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("probability", [0.0, 2.0**-70, 0.01, 1 / 256, 0.3, 0.999, 1.0])
def test_the_list_of_successes_is_the_mask(probability: float) -> None:
    """The same bytes of the same stream, so that a law that is tested for one holds for both."""
    for exact in (False, True):
        mask = bernoulli(Keystream(bytes(32)), probability, 3000, always_exact=exact)
        found = successes(Keystream(bytes(32)), probability, 3000, always_exact=exact)
        assert found.tolist() == np.flatnonzero(mask).tolist()


class _Words:
    """Stands for a keystream whose words are given."""

    def __init__(self, *given: list[int]) -> None:
        self.given = list(given)

    def fill(self, words: np.ndarray) -> None:
        words[:] = np.array(self.given.pop(0)[: len(words)], np.uint64)


def test_a_permutation_is_the_order_of_its_words() -> None:
    """Also of words that differ in the bits alone where their numbers are written for sorting;
    equal words are drawn again, for what orders them would be their place and not chance."""
    top = 2**63
    for count in (0, 1, 2, 255, 256, 257, 5000):
        words = Keystream(bytes(32)).words(count)
        assert permutation(Keystream(bytes(32)), count).tolist() == np.argsort(words).tolist()
    close = [[top + 3, top + 1, top + 2, 5]]
    assert permutation(_Words(*close), 4).tolist() == [3, 1, 2, 0]  # type: ignore[arg-type]
    again = [[7, 9, 7, 8], [2**64 - 1, 0, 2**40, 2**50]]
    assert permutation(_Words(*again), 4).tolist() == [1, 2, 3, 0]  # type: ignore[arg-type]
