"""What is said of a model to people and registries: one collection of facts, in several forms.

The card follows Mitchell et al. (2019): purpose, data, privacy, quality, limits. The registry's
fields are those of the public registry of deployments that Dwork, Kohli and Mulligan (2019) called
for, as proposed by Nanayakkara, Ghazi and Vadhan (2025): about the deployment, the flavour of
differential privacy, the privacy loss, the model of trust, accounting, and implementation. What
only the people behind a study can say is left empty, and named.
"""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, NamedTuple

from unisono.algorithms.evaluation_text import learnt_from, metric_row
from unisono.core.certificate import TRUST_WORDS, Line, certified_guess
from unisono.core.success import attack_success
from unisono.core.trust import Relation, Trust, Viewer, describe
from unisono.core.words import clean, clean_lines, number
from unisono.data.columns import NumericColumn
from unisono.errors import InvalidInput
from unisono.models.fitted import FittedModel, load, portable_text
from unisono.runs.folder import EVALUATION, HEADING, STUDY
from unisono.studies.file import load_study

REGISTRY_FORMAT = "unisono-registry-1"
TO_BE_SAID = "(to be filled in by whoever publishes it)"
_RELATIONS = {
    "replace-one": "one {unit} is replaced by any other",
    "zero-out": "one {unit} is replaced by a blank",
    "add-or-remove": "one {unit} is added or removed",
}
_TRUST_MODELS = {
    Trust.LOCAL: "local: every party adds all noise to what it releases",
    Trust.SECURE_SUM: "distributed: shares of the noise are added inside a secure sum",
    Trust.TRUSTED_SERVER: "central: a trusted server adds the noise",
}


class Section(NamedTuple):
    """A heading, and lines below it."""

    title: str
    lines: list[str]


# ------------------------------------------------------------- the card


def card(model: FittedModel) -> list[Section]:
    """The sections of a model card."""
    return [
        Section("Purpose", list(_purpose(model))),
        Section("Data", list(_data(model))),
        Section("Privacy", list(_privacy(model))),
        Section("Quality", list(_quality(model))),
        Section("Limits", list(_limits(model))),
    ]


def _purpose(model: FittedModel) -> Iterator[str]:
    yield f"{model.kind.summary[0].upper()}{model.kind.summary[1:]} ({model.model})."
    if model.prediction is not None:
        yield f"Formula: {model.formula}."
    yield f"Learnt by {model.result.get('algorithm', 'an algorithm that is not named')}."
    yield f"Intended use: {TO_BE_SAID}."


def _data(model: FittedModel) -> Iterator[str]:
    certificate = model.certificate
    yield f"Records of {certificate.get('parties', 1)} part" + (
        "y, which stay there." if certificate.get("parties", 1) == 1 else "ies, which stay there."
    )
    for name, column in model.schema.columns.items():
        role = " (predicted)" if name == model.target else ""
        if isinstance(column, NumericColumn):
            low, high = column.span
            yield f"{name}{role}: {column.wanted} between {low:g} and {high:g}, by public bounds."
        else:
            yield f"{name}{role}: {column.wanted}."


def _privacy(model: FittedModel) -> Iterator[str]:
    certificate = model.certificate
    if model.simulated:
        yield "SIMULATION: the noise was predictable, so there is NO privacy."
    alike: dict[str, list[str]] = {}
    lines = [
        Line(
            Viewer(one["viewer"]),
            Relation(one["relation"]),
            float(one["epsilon"]),
            float(one["delta"]),
            certified_guess(one),
        )
        for one in certificate["guarantees"]
    ]
    for line in lines:
        own = [one for one in lines if one.viewer == line.viewer]
        success = attack_success(own, line.relation, certificate["unit"])
        words = (
            "no protection"
            if success is None
            else f"epsilon {number(line.epsilon)} at delta {line.delta:g}; {success.words}"
        )
        when = _RELATIONS[line.relation].format(unit=certificate["unit"])
        alike.setdefault(f"If {when}: {words}", []).append(describe(line.viewer))
    for words, viewers in alike.items():
        yield f"{words}. Against {'; '.join(viewers)}."
    trust = certificate.get("trust")
    if trust:
        yield f"Trust: {trust}, {TRUST_WORDS[Trust(trust)]}."
    for name, value in certificate.get("declarations", {}).items():
        yield f"Assumed: {name.replace('_', ' ')}: {value}."
    yield f"Study {str(certificate.get('study', ''))[:16]}, certificate.json beside the model."


def _quality(model: FittedModel) -> Iterator[str]:
    found = EVALUATION.content(model.folder)
    beside = evaluations_beside(model)
    for folder, judged in beside.items():
        yield from _judged(folder, judged)
    if found is None:
        if not beside:
            yield "Not measured: no evaluation of this model was found in its folder or beside it."
        return
    for one in (found, *found.get("also", ())):
        words = f"{one['measure']}: {one['value']:.3g}"
        if "low" in one and "high" in one:
            sure = f"{one.get('confidence', 0.95):.0%}".replace("%", " %")
            words += f", {sure} interval {one['low']:.3g} to {one['high']:.3g}"
        if one.get("baseline") is not None:
            words += f"; without a model {one['baseline']:.3g}"
        yield f"{words} ({one.get('how', 'as its evaluation says')})."


def evaluations_beside(model: FittedModel) -> dict[str, Mapping[str, Any]]:
    """The results of evaluations in folders beside that of the run, by their names, of those alone
    that judged this very model: their study holds it, and their certificate names the study."""
    if model.prediction is None or model.simulated:
        return {}
    own, found = portable_text(model), {}
    for folder in sorted(model.folder.absolute().parent.glob("*.run")):
        try:
            judged, file = load(folder), load_study(folder / STUDY)
        except (InvalidInput, OSError):
            continue
        same = getattr(file.model_settings, "judged", None) == own
        if same and judged.certificate.get("file") == file.hash and not judged.simulated:
            found[folder.name] = judged.result
    return found


def _judged(folder: str, result: Mapping[str, Any]) -> Iterator[str]:
    """The metrics of one of them, and what is to be known of them."""
    found, sure = result["evaluation"], f"{result['confidence']:.0%}".replace("%", " %")
    yield f"Evaluated on about {max(0.0, float(found['records'])):,.0f} records ({folder}):"
    for metric in found["metrics"]:
        name, value, interval, _ = metric_row(metric)
        yield f"{name}: {value}" + (f", {sure} interval {interval}" if interval else "") + "."
    if warning := learnt_from(result):
        yield f"{warning}."


def _limits(model: FittedModel) -> Iterator[str]:
    if note := model.result.get("note"):
        yield str(note).strip().rstrip(".") + "."
    for statement in model.result.get("statements", ()):
        yield f"{statement[0].upper()}{statement[1:].rstrip('.')}."
    if model.prediction is None:
        yield f"It predicts nothing: {model.kind.silent}."
    else:
        yield "Numbers outside their bounds count as the nearest bound."
        drops = [n for n in model.prediction.inputs if model.schema.columns[n].drops]
        if drops:
            yield f"A record that misses {' or '.join(drops)} has no prediction."
    yield "Promised is that taking part changes little; what a group has in common is no secret."


def as_markdown(model: FittedModel) -> str:
    lines = [f"# Model card: {_plain(_title(model))}", ""]
    for section in card(model):
        lines += [f"## {section.title}", "", *(f"- {_plain(one)}" for one in section.lines), ""]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Text that Markdown takes for text."""
    return (
        clean(text)
        .replace("\\", "\\\\")
        .replace("<", "&lt;")
        .replace("[", "\\[")
        .replace("`", "\\`")
    )


_STYLE = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;"
    "margin:2rem auto;padding:0 1rem}h2{margin-top:2rem;border-bottom:1px solid #8886}"
    "li{margin:.3rem 0}"
)


def as_html(model: FittedModel) -> str:
    """One page that loads nothing from elsewhere, light and dark."""
    title = escape(f"Model card: {_title(model)}")
    body = "".join(
        f"<section><h2>{escape(section.title)}</h2><ul>"
        + "".join(f"<li>{escape(one)}</li>" for one in section.lines)
        + "</ul></section>"
        for section in card(model)
    )
    return clean_lines(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f"<body><h1>{title}</h1>{body}</body></html>\n"
    )


def _title(model: FittedModel) -> str:
    return model.title or model.model


# ------------------------------------------------------------- the registry


def registry(model: FittedModel) -> dict[str, Any]:
    """The statement in the registry's fields."""
    certificate = model.certificate
    unit, trust = str(certificate["unit"]), certificate.get("trust")
    heading = HEADING.content(model.folder) or {}
    return {
        "format": REGISTRY_FORMAT,
        "deployment": {
            "name": _title(model),
            "data_curator": TO_BE_SAID,
            "intended_use": TO_BE_SAID,
            "data_product_type": "machine learning model"
            if model.prediction is not None
            else "statistics",
            "data_product_description": f"{model.kind.summary}; {model.formula or model.model}",
            "data_product_region": TO_BE_SAID,
            "publication_date": str(heading.get("ended") or "")[:10] or TO_BE_SAID,
        },
        "dp_flavor": {
            "name": _flavour(certificate),
            "data_domain": {name: column.wanted for name, column in model.schema.columns.items()},
            "unprotected_quantities": list(_unprotected(model)),
        },
        "privacy_loss": {
            "privacy_unit": unit,
            "privacy_unit_description": _unit_words(certificate),
            "privacy_parameters": [
                {
                    "against": line["viewer"],
                    "against_description": describe(Viewer(line["viewer"])),
                    "neighbours": _RELATIONS[line["relation"]].format(unit=unit),
                    "epsilon": line["epsilon"],
                    "delta": line["delta"],
                }
                for line in certificate["guarantees"]
            ],
        },
        "deployment_model": {
            "model_name": _TRUST_MODELS[Trust(trust)] if trust else TO_BE_SAID,
            "actors": {
                "parties": certificate.get("parties"),
                "parties_that_must_answer": certificate.get("minimum_parties"),
                "parties_that_may_collude": certificate.get("colluders"),
            },
            "release_type": "one release" if not _rounds(certificate) else "one run of rounds",
            "data_source_type": "static",
        },
        "accounting": {
            "post_processing": "predictions, exports and this statement read the released model "
            "only",
            "composition": "all releases of the run, composed numerically; ledgers compose runs",
            "events": dict(certificate.get("events", {})),
        },
        "implementation": {
            "pre_processing_and_tuning": TO_BE_SAID,
            "mechanisms": {
                "algorithm": certificate.get("algorithm"),
                "settings": dict(certificate.get("settings", {})),
            },
            "software": dict(certificate.get("versions", {})),
            "entropy": certificate.get("entropy"),
            "secure_sum": certificate.get("secure_sum", ""),
            "transport": certificate.get("transport", ""),
            "justification": TO_BE_SAID,
        },
        "evidence": {"study": certificate.get("study", ""), "file": certificate.get("file", "")},
    }


def _flavour(certificate: Mapping[str, Any]) -> str:
    pure = all(line["delta"] == 0 for line in certificate["guarantees"])
    return "pure differential privacy" if pure else "approximate differential privacy"


def _unprotected(model: FittedModel) -> Iterator[str]:
    """What everybody knows beforehand."""
    yield "names, kinds, bounds and listed values of columns"
    yield "how many parties take part"
    if model.schema.sizes == "exact":
        yield "each party's number of records"


def _unit_words(certificate: Mapping[str, Any]) -> str:
    said = [f"{name.replace('_', ' ')}: {own}" for name, own in certificate["declarations"].items()]
    assumed = f"; assuming {', '.join(said)}" if said else ""
    return f"one {certificate['unit']} of one party{assumed}"


def _rounds(certificate: Mapping[str, Any]) -> bool:
    histories = certificate.get("events", {}).values()
    return any(sum(part["count"] for part in history) > 1 for history in histories)


def as_registry(model: FittedModel) -> str:
    return json.dumps(registry(model), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


__all__ = ["as_html", "as_markdown", "as_registry", "card", "registry"]
