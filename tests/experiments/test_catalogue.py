"""Every experiment that can be named exists, and names are found in spite of slips."""

import importlib

import pytest

from unisono.errors import InvalidInput
from unisono.experiments import catalogue


@pytest.mark.parametrize("name", catalogue.EXPERIMENTS)
def test_every_experiment_can_be_imported(name):
    module = importlib.import_module(catalogue.EXPERIMENTS[name])
    assert callable(module.run)
    assert catalogue.experiment(name) is module.run
    assert catalogue.summary(name) == module.__doc__.split("\n", 1)[0]


def test_groups_and_aliases():
    assert catalogue.chosen([]) == list(catalogue.SYNTHETIC)
    assert catalogue.chosen(["data"]) == list(catalogue.DATA)
    assert set(catalogue.chosen(["all", "data"])) == set(catalogue.EXPERIMENTS)
    assert catalogue.chosen(["constructed"]) == list(catalogue.CONSTRUCTED)
    assert catalogue.chosen(["thesis", "constructed"]) == catalogue.chosen(["all"])
    assert catalogue.chosen(["bias", "fig4.3"]) == ["fig4.3"]
    assert not set(catalogue.THESIS) & set(catalogue.CONSTRUCTED)
    assert not set(catalogue.SYNTHETIC) & set(catalogue.DATA)


def test_unknown_names_get_the_nearest_match():
    with pytest.raises(InvalidInput, match=r"'compositon': did you mean composition\?"):
        catalogue.chosen(["compositon"])
    with pytest.raises(InvalidInput, match=r"'xyz': choose from fig4\.1, "):
        catalogue.experiment("xyz")
