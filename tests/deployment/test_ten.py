"""Ten hospitals, each a process of its own, on a real server: as many as once ended every study."""

import json
import subprocess
import sys

import pytest

from .trial import DESCENT, LINEAR, RECORDS, STUDY, write_records

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

NAMES = [f"hospital-{number}" for number in range(10)]


def test_ten_parties_finish_a_secure_sum_without_a_retry(tmp_path):
    parties = "".join(f'\n[[parties]]\nname = "{name}"\nrecords = {RECORDS}\n' for name in NAMES)
    study, data = tmp_path / "study.toml", tmp_path / "data"
    study.write_text(
        STUDY.format(
            parties=parties,
            epsilon=2.0,
            trust="secure-sum",
            survivors=8,
            retries=1,
            model=LINEAR,
            algorithm=DESCENT.format(rounds=3),
        )
    )
    data.mkdir()
    for number, name in enumerate(NAMES):
        write_records(data / f"{name}.csv", number)
    command = [
        sys.executable,
        "-m",
        "unisono",
        "local-cluster",
        study,
        "--data",
        data,
        "--folder",
        tmp_path / "trial",
        "--budget",
        "20",
    ]
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=500, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    traffic = json.loads((tmp_path / "trial/server/traffic.json").read_text())
    assert (traffic["opened"], traffic["retries"]) == (3, 0)
