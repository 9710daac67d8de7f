"""`unisono doctor`: sound here, and every check can fail with a remedy."""

import json
import os
import time

import pytest
from typer.testing import CliRunner

from unisono import cli
from unisono.cli import doctor_checks

RUNNER = CliRunner()


def finding(name, folder):
    [found] = [one for one in doctor_checks.examine(folder) if one.check == name]
    return found


def only(monkeypatch, *names):
    """Leave the other checks out: some of them compile programs."""
    kept = {name: doctor_checks.CHECKS[name] for name in names}
    monkeypatch.setattr(doctor_checks, "CHECKS", kept)


def test_this_installation_is_sound(tmp_path):
    result = RUNNER.invoke(cli.app, ["doctor", "--folder", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["sound"]
    assert [one["check"] for one in found["checks"]] == list(doctor_checks.CHECKS)
    assert list(tmp_path.iterdir()) == []
    for one in found["checks"]:
        assert bool(one["remedy"]) == (one["state"] != "ok")


def test_a_problem_has_a_remedy_and_exit_code_1(tmp_path, monkeypatch):
    only(monkeypatch, "Python", "ledger folder")
    result = RUNNER.invoke(cli.app, ["doctor", "--folder", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert "problem  ledger folder" in result.stdout
    assert "--folder" in result.stdout
    assert "1 of 2 checks failed" in result.stdout


def test_versions_out_of_range_are_named(tmp_path, monkeypatch):
    only(monkeypatch, "libraries", "Flower")
    versions = {"numpy": "1.0.0", "flwr": "0.9"}
    real = doctor_checks._version
    monkeypatch.setattr(doctor_checks, "_version", lambda name: versions.get(name, real(name)))
    found = finding("libraries", tmp_path)
    assert found.state == "problem"
    assert "numpy 1.0.0" in found.words
    assert finding("Flower", tmp_path).state == "warning"


def test_missing_libraries_are_named(tmp_path, monkeypatch):
    only(monkeypatch, "libraries", "Flower")
    monkeypatch.setattr(doctor_checks, "_version", lambda name: None)
    assert "scipy is missing" in finding("libraries", tmp_path).words
    assert finding("Flower", tmp_path).state == "warning"


def test_random_bytes_that_repeat_are_a_problem(tmp_path, monkeypatch):
    only(monkeypatch, "entropy")
    monkeypatch.setattr(os, "urandom", lambda count: bytes(count))
    assert finding("entropy", tmp_path).state == "problem"


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_noise_of_the_wrong_width_is_a_problem(tmp_path, monkeypatch, factor):
    import unisono.core.noise as noise

    only(monkeypatch, "exact noise")
    real = noise.discrete_gaussian
    monkeypatch.setattr(noise, "discrete_gaussian", lambda key, std, n: real(key, factor * std, n))
    found = finding("exact noise", tmp_path)
    assert found.state == "problem"
    assert "standard deviation 10" in found.words


def test_a_folder_without_locks_or_rights_is_a_problem(tmp_path, monkeypatch):
    only(monkeypatch, "ledger folder")
    assert finding("ledger folder", tmp_path).state == "ok"
    with monkeypatch.context() as patch:
        patch.setattr(doctor_checks, "_second_lock", lambda name: True)
        assert "two writers" in finding("ledger folder", tmp_path).words

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert "No space left" in finding("ledger folder", tmp_path).words


def test_clock_disk_and_terminal_warn(tmp_path, monkeypatch):
    only(monkeypatch, "clock", "disk space", "terminal", "compilation cache")
    assert [one.state for one in doctor_checks.examine(tmp_path)] == ["ok"] * 4
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert "1970" in finding("clock", tmp_path).words
    monkeypatch.setattr(doctor_checks, "_SOME_SPACE", 2**80)
    assert finding("disk space", tmp_path).state == "warning"
    monkeypatch.setattr(doctor_checks, "_LEAST_SPACE", 2**80)
    assert finding("disk space", tmp_path).state == "problem"
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert "XDG_CACHE_HOME" in finding("compilation cache", tmp_path).remedy


def test_a_check_that_breaks_is_reported_and_not_raised(tmp_path, monkeypatch):
    def broken(folder):
        raise RuntimeError("libfoo.so: cannot open")

    monkeypatch.setattr(doctor_checks, "CHECKS", {"JAX": broken})
    [found] = doctor_checks.examine(tmp_path)
    assert (found.state, found.words) == ("problem", "RuntimeError: libfoo.so: cannot open")
    assert found.remedy
