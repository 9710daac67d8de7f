"""Tables of coefficients: ends of intervals that data do not limit."""

import json

import numpy as np

from unisono.models.inference import Inference, as_text, effect_in_words
from unisono.models.summary import RegressionSummary
from unisono.reports.findings import _forest_row, _ranked, _regression_row

LIMITS = np.array([[-np.inf, np.nan], [np.nan, np.inf], [np.nan, np.nan]])
FOUND = Inference(
    ("a=1", "b=1", "c"),
    np.array([-4.0, 3.0, 0.5]),
    np.eye(3) / 4,
    np.eye(3) / 8,
    np.ones(3, bool),
    "hazard ratio",
    limits=LIMITS,
)


def test_an_infinite_end_is_null_in_json_and_words_in_text():
    shown = FOUND.to_json()
    assert np.isneginf(FOUND.interval()[0, 0])
    assert np.isposinf(FOUND.interval(0.5)[1, 1])
    assert np.isfinite(FOUND.interval()[2]).all()
    assert shown["a=1"]["interval"][0] is None
    assert shown["a=1"]["ratio_interval"][0] is None
    assert shown["b=1"]["interval"][1] is None
    json.dumps(shown, allow_nan=False)
    lines = as_text(shown, "hazard ratio").splitlines()
    assert "no lower limit to -3.02" in lines[1]
    assert "(7.54 to no upper limit)" in lines[2]
    text = str(RegressionSummary("title", {"Family": "x"}, FOUND, []))
    assert text.count("no lower limit") == text.count("no upper limit") == 2  # and of the ratio


def test_words_and_drawings_of_infinite_ends():
    features = {name: {"reference": "none"} for name in FOUND.names}
    result = {
        "target": "months",
        "ratio": "hazard ratio",
        "link": "log-hazard",
        "confidence": 0.95,
        "coefficients": FOUND.to_json(),
        "features": features,
    }
    assert "no lower limit to 0.0488" in effect_in_words(result, "a=1")
    row = _forest_row(result, "a=1")
    assert row.numbers is None
    assert row.words == "no lower limit to 0.0488"
    assert "no upper limit" in _regression_row(result, "b=1", 7)[1]
    assert _ranked(result, result["coefficients"]) == []  # one of three alone can be drawn
