"""The scattering transform: exact symmetries, known values, energy, and records on their own."""

import numpy as np
import pytest

from unisono.errors import InvalidInput
from unisono.problems import scattering as module
from unisono.problems.scattering import group_normalised, scattering

SCALES, ANGLES, SIDE = 2, 8, 28


@pytest.fixture
def images(generator):
    """Blurred noise: neighbouring pixels agree, as in pictures."""
    spectrum = np.fft.rfft2(generator.normal(size=(6, SIDE, SIDE)))
    rows, columns = np.fft.fftfreq(SIDE)[:, None], np.fft.rfftfreq(SIDE)
    return np.fft.irfft2(spectrum * np.exp(-60 * (rows**2 + columns**2)), (SIDE, SIDE))


def spot(top, left, size=8):
    """A textured patch on an empty image."""
    image = np.zeros((SIDE, SIDE))
    texture = np.random.default_rng(5).integers(0, 2, (size, size))
    image[top : top + size, left : left + size] = texture
    return image


def by_definition(image, scales, angles):
    """S0, S1 and S2 with the definition's own sums over pixels: nothing is folded or cached."""
    margin = cell = 2**scales
    field = np.pad(image, margin, mode="symmetric")
    size = len(field)

    def convolved(values, spectrum):
        kernel = np.fft.ifft2(spectrum)
        out = np.zeros_like(values, dtype=complex)
        for row, column in np.ndindex(kernel.shape):
            out += kernel[row, column] * np.roll(values, (row, column), axis=(0, 1))
        return out

    def averaged(values, step):
        positions = np.arange(0, size, step)
        centres = cell * np.arange(1, size // cell - 1) + cell // 2
        distance = (positions - centres[:, None] + size / 2) % size - size / 2
        weights = np.exp(-(distance**2) / (2 * (0.8 * 2 ** (scales - 1)) ** 2))
        weights /= weights.sum(axis=1, keepdims=True)
        return weights @ values @ weights.T

    waves = module._bank((size, size), scales, angles)
    first, second = [], []
    for j in range(scales):
        for angle in range(angles):
            modulus = np.abs(convolved(field, waves[j, angle]))
            first.append(averaged(modulus[:: 2**j, :: 2**j], 2**j))
            if j == 0 and scales == 2:
                for other in range(angles):
                    again = np.abs(convolved(modulus, waves[1, other]))
                    second.append(averaged(again[::2, ::2], 2))
    return np.array([averaged(field, 1), *first, *second])


def test_shape_type_and_the_number_of_channels(images):
    features = scattering(images)
    assert features.shape == (6, 81, 7, 7)
    assert features.dtype == np.float32
    assert scattering(images[:, :24, :16], scales=3, angles=4).shape == (6, 61, 3, 2)
    assert scattering(images[:0]).shape == (0, 81, 7, 7)


@pytest.mark.parametrize(("scales", "angles", "side"), [(1, 3, 8), (2, 4, 8)])
def test_equals_the_definition(generator, scales, angles, side):
    image = generator.uniform(size=(side, side))
    expected = by_definition(image, scales, angles)
    assert scattering(image[None], scales, angles)[0] == pytest.approx(expected, abs=3e-6)


@pytest.mark.parametrize(("scale", "angle"), [(0, 0), (0, 3), (1, 2), (1, 7)])
def test_waves_are_those_of_the_formula(scale, angle):
    size = 48
    row, column = np.mgrid[:size, :size] - size // 2
    theta = np.pi * angle / ANGLES
    a = row * np.cos(theta) + column * np.sin(theta)
    b = column * np.cos(theta) - row * np.sin(theta)
    s, xi = (0.8, 0.75 * np.pi) if scale == 0 else (1.6, 0.375 * np.pi)
    bell = np.exp(-(a**2 + (b / 2) ** 2) / (2 * s**2))
    mean = (bell * np.cos(xi * a)).sum() / bell.sum()
    expected = np.fft.ifftshift(bell * (np.exp(1j * xi * a) - mean))
    wave = np.fft.ifft2(module._bank((size, size), SCALES, ANGLES)[scale, angle])
    assert wave / wave[0, 0] == pytest.approx(expected / expected[0, 0], abs=1e-5)


def test_a_constant_image_is_its_average_and_nothing_else():
    features = scattering(np.full((1, SIDE, SIDE), 0.7))[0]
    assert features[0] == pytest.approx(0.7, rel=1e-5)
    assert np.abs(features[1:]).max() < 1e-6


def test_a_plane_wave_excites_its_own_size_and_direction():
    """Stripes at the centre frequency of (j, l) = (1, 2): 45 degrees, 3/8 of a half turn."""
    row, column = np.mgrid[:SIDE, :SIDE]
    stripes = np.cos(0.375 * np.pi * (row + column) / np.sqrt(2))
    first = scattering(stripes[None])[0, 1:17, 2:5, 2:5].mean(axis=(1, 2)).reshape(SCALES, ANGLES)
    assert np.unravel_index(first.argmax(), first.shape) == (1, 2)
    assert first[1, 2] > 2 * first[1, 6]


def test_moving_by_a_cell_moves_the_features_by_a_cell():
    here, there = scattering(np.array([spot(8, 8), spot(12, 8)]))
    assert there[:, 1:] == pytest.approx(here[:, :-1], abs=2e-6)


def test_moving_by_a_pixel_changes_the_features_little():
    """The patch's pixels change by about their own length, its features by at most a third."""
    pixels = np.array([spot(10, 10), spot(10, 11)])
    features = scattering(pixels)

    def change(pair):
        return np.linalg.norm(pair[1] - pair[0]) / np.linalg.norm(pair[0])

    assert change(pixels) > 1
    assert change(features) < 1 / 3


def test_a_right_angle_turns_channels_and_moves_directions_by_half():
    """Rows and columns 1 .. 27 turn about a pixel of the folded grid: exact, all 49 cells."""
    image = np.zeros((SIDE, SIDE))
    image[5:24, 5:24] = np.random.default_rng(1).uniform(size=(19, 19))
    turned = np.zeros_like(image)
    turned[1:, 1:] = np.rot90(image[1:, 1:])
    before, after = scattering(np.array([image, turned]))
    before = np.rot90(before, axes=(1, 2))
    half = ANGLES // 2
    first = np.roll(before[1:17].reshape(SCALES, ANGLES, 7, 7), half, axis=1)
    second = np.roll(before[17:].reshape(ANGLES, ANGLES, 7, 7), (half, half), axis=(0, 1))
    assert after[0] == pytest.approx(before[0], abs=2e-6)
    assert after[1:17].reshape(first.shape) == pytest.approx(first, abs=2e-6)
    assert after[17:].reshape(second.shape) == pytest.approx(second, abs=2e-6)
    assert np.abs(after[1:17] - before[1:17]).max() > 0.01  # a turn that moves nothing would pass


@pytest.mark.parametrize(("scales", "angles"), [(1, 8), (2, 8), (3, 6)])
def test_no_frequency_gains_energy_and_one_keeps_all_of_it(scales, angles):
    size = 40
    waves = module._bank((size, size), scales, angles).astype(float)
    opposite = np.roll(waves[..., ::-1, ::-1], 1, axis=(-2, -1))
    bell = module._bell(np.arange(size), size, scales)
    low = np.fft.fft(bell / bell.sum()).real
    total = np.outer(low, low) ** 2 + 0.5 * np.sum(waves**2 + opposite**2, axis=(0, 1))
    assert total.max() == pytest.approx(1, abs=1e-5)
    assert total[0, 0] == pytest.approx(1)
    busiest = np.delete(total.ravel(), 0).max()
    assert busiest == pytest.approx(1, abs=1e-5)
    assert np.abs(waves[..., 0, 0]).max() < 1e-6


def test_a_contraction_of_padded_images(images, generator):
    """||S x - S y|| <= ||x - y|| on the padded field, for pictures, noise and a single dot."""
    dot = np.zeros((1, SIDE, SIDE))
    dot[0, 14, 14] = 1
    pictures = np.concatenate([images, generator.normal(size=(4, SIDE, SIDE)), dot, 0 * dot])
    padded = np.pad(pictures, ((0, 0), (4, 4), (4, 4)), mode="symmetric")
    features = scattering(pictures)
    for one in range(len(pictures)):
        for other in range(one):
            moved = np.linalg.norm(features[one] - features[other])
            assert moved <= np.linalg.norm(padded[one] - padded[other])


def test_every_record_on_its_own(generator):
    """A batch longer than a chunk equals its records one by one, bit for bit."""
    images = generator.uniform(size=(module._CHUNK + 3, 8, 8)).astype(np.float32)
    together = scattering(images, angles=4)
    for index in (0, 1, module._CHUNK - 1, module._CHUNK, len(images) - 1):
        alone = scattering(images[index : index + 1], angles=4)[0]
        assert np.array_equal(together[index], alone)
        normal = group_normalised(together, 5)[index]
        assert np.array_equal(normal, group_normalised(alone[None], 5)[0])


def test_a_broken_record_spoils_no_other(generator):
    images = generator.uniform(size=(3, 8, 8))
    whole = scattering(images, angles=4)
    images[1, 2, 2] = np.nan
    broken = scattering(images, angles=4)
    assert np.array_equal(broken[[0, 2]], whole[[0, 2]])
    assert np.isnan(broken[1]).all()
    normal = group_normalised(broken, 5)
    assert np.isfinite(normal[[0, 2]]).all()


def test_group_normalisation(images):
    features = scattering(images)
    normal = group_normalised(features, 27).reshape(6, 27, -1)
    assert normal.mean(axis=2) == pytest.approx(0, abs=1e-5)
    assert normal.var(axis=2) == pytest.approx(1, abs=1e-4)
    scaled = group_normalised(5 * features + 2, 27).reshape(normal.shape)
    assert scaled == pytest.approx(normal, abs=2e-3)
    assert np.all(group_normalised(np.full((2, 4, 3), 1000.1), 2) == 0)


def test_a_constant_image_stays_finite():
    features = group_normalised(scattering(np.ones((1, SIDE, SIDE))), 27)
    assert np.isfinite(features).all()


def test_wrong_shapes_are_refused():
    with pytest.raises(InvalidInput, match="multiples of 4"):
        scattering(np.zeros((2, 30, 28)))
    with pytest.raises(InvalidInput, match="height, width"):
        scattering(np.zeros((28, 28)))
    with pytest.raises(InvalidInput, match="at least one"):
        scattering(np.zeros((1, 28, 28)), scales=0)
    with pytest.raises(InvalidInput, match="divides the channels"):
        group_normalised(np.zeros((2, 81, 7)), 10)
