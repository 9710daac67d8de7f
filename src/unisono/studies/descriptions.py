"""The formats as JSON schemas, with a sentence on every key, for editors and other programs.

A key that means the same wherever it stands is described once; `Table.key` where it does not.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from unisono.studies.policy_file import PolicyFile
from unisono.studies.schema import StudyFile

_DIALECT = "https://json-schema.org/draft/2020-12/schema"

WORDS: Mapping[str, str] = {
    # study.toml
    "title": "What the study is about, for people.",
    "edition": "A study runs once. To run the same again, agree on the next edition.",
    "data": "Columns, all of them public knowledge.",
    "parties": "Who takes part, in an agreed order.",
    "privacy": "What one unit may lose by the whole study.",
    "trust": "Where noise is added, who must answer and who may collude.",
    "Allowed.trust": "The kinds of trust that a study may ask for.",
    "algorithm": "What is learnt, and how.",
    "evaluation": "How good the result is: a private test, a public one, or both.",
    "server": "Where the server is, for studies between machines.",
    "columns": "The columns in an agreed order, each with bounds or values.",
    "Allowed.columns": "The columns that a study may read; left out: all.",
    "target": "The column to predict, where the algorithm predicts one.",
    "sizes": "Whether everybody knows how many records a party has.",
    "multiline": "Quoted cells of CSV files may hold newlines; then a stray quote joins records.",
    "kind": "A number with bounds, or a category with values.",
    "bounds": "The public lowest and highest value; what lies outside is clipped.",
    "whole": "Whole numbers are added exactly in statistics.",
    "values": "All values that occur, in an agreed order; the first is the reference.",
    "name": "The algorithm.",
    "Participant.name": "A party's name, as its files and cards have it.",
    "Dataset.name": "The data set's name; `unisono join` takes it for the party's.",
    "records": "The party's public number of records, or an estimate where sizes are hidden.",
    "epsilon": "How much may be learnt of one unit: smaller hides more.",
    "Evaluation.epsilon": "What the private test costs, in addition to the study.",
    "Budget.epsilon": "What all studies together may cost.",
    "Exempt.epsilon": "What this viewer may learn; inf: it is trusted.",
    "delta": "The chance of the worst case; far below 1 / number of records.",
    "unit": "Whose presence is hidden: a record's, or a whole party's.",
    "relation": "What is hidden of it: which one it is, its values, or also that it is there.",
    "Privacy.relation": "What is hidden of it: which one it is, its values, or also that it is "
    "there; left out: replace-one, for a party zero-out.",
    "mode": "Who adds the noise: parties in shares, each party alone, or a trusted server.",
    "minimum_survivors": "So many parties must answer in every round; left out: all.",
    "colluders": "So many parties may work together with the server.",
    "Trusted.colluders": "So many parties may work together with the server; left out: 1, or 0 "
    "with a trusted server.",
    "retries": "So many failed rounds of the run may be tried again; all are paid for.",
    "holdout": "The share of each party's records that is kept out of training for the test.",
    "file": "A file of PUBLIC test records; its path begins at this file's folder.",
    "confidence": "How often intervals hold.",
    "address": "HOST:PORT, as parties reach it.",
    "deadline": "Seconds to wait for an answer.",
    # algorithms
    "questions": "What is asked; one release answers all of it.",
    "clusters": "How many groups.",
    "rounds": "How often parties are asked; the budget covers all rounds.",
    "loss": "logistic: two classes or more; huber-svm: two; squares: a number.",
    "regularisation": "Pulls weights towards zero; left out in output-perturbation: a rule.",
    "learning_rate": "The length of a step; left out: a published rule of public facts.",
    "rate": "A record's chance to take part in a round.",
    "FedAvg.rate": "A party's chance to take part in a round.",
    "lipschitz": "The bound of one record's gradient.",
    "radius": "Weights stay within this distance of zero.",
    "strong_convexity": "Of the loss; 0 unless it is regularised.",
    "hidden": "How many units each hidden layer has.",
    "activation": "The function between layers.",
    "clip": "The bound of what one unit contributes.",
    "averaged": "The last share of rounds over which the model is averaged.",
    "steps": "Noisy steps at home between two messages.",
    "separation": "A record has its turn every so many rounds.",
    "bands": "Over how many rounds noise is correlated.",
    "epochs": "How often a party goes through its records in a round.",
    "batch_size": "Records in a step at home.",
    "follow_median": "Whether the clip moves with the median of the changes.",
    "noise_std": "How far targets scatter around the model, in their own units.",
    "prior_variance": "How large weights may be before anything is known, in scaled units.",
    "link": "How a score becomes a probability.",
    "covariance": "Whether the posterior knows of correlated weights.",
    "variance_rate": "The length of a step for variances.",
    "damping": "How much of an update is taken.",
    # questions
    "ask": "What is asked of the column.",
    "column": "The column that is asked about.",
    "by": "A category: the question is asked for each of its values.",
    "value": "The value that is counted.",
    "bins": "So many bins of equal width, for a number.",
    "levels": "Which quantiles, each between 0 and 1.",
    "weight": "This question's part of the budget, relative to the others.",
    # policy.toml
    "dataset": "Whose records, and where the book of their budget lies.",
    "ledger": "The ledger's file, beside this one unless the path is absolute.",
    "records_per_person": "Declared on certificates: how many records one person may have.",
    "parties_disjoint": "Declared on certificates: nobody has records at two parties.",
    "budget": "What all studies together may cost, against every viewer.",
    "exceptions": "Viewers who may learn more, or less.",
    "allow": "What one study may be.",
    "maximum_epsilon": "The most that one study may cost.",
    "maximum_delta": "The delta at which it is counted.",
    "minimum_quorum": "So many parties must take part in every round.",
    "minimum_honest": "So many of them must certainly be honest.",
    "maximum_retries": "So many failed rounds of a study may be tried again.",
    "algorithms": "Which algorithms a study may use; left out: all.",
    "servers": "Which servers a study may use, as HOST:PORT; left out: any.",
}


def study_schema() -> dict[str, Any]:
    """The format of `study.toml`."""
    return _schema(StudyFile)


def policy_schema() -> dict[str, Any]:
    """The format of `policy.toml`."""
    return _schema(PolicyFile)


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    made = model.model_json_schema()
    for name, table in [(model.__name__, made), *made.get("$defs", {}).items()]:
        for key, entry in table.get("properties", {}).items():
            entry["description"] = WORDS.get(f"{name}.{key}") or WORDS[key]
    return {"$schema": _DIALECT, **made}


__all__ = ["WORDS", "policy_schema", "study_schema"]
