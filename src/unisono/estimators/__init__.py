"""Private models with scikit-learn's manners: linear ones, and networks of dense layers.

from unisono.estimators import PrivateLogisticRegression
model = PrivateLogisticRegression(epsilon=1.0, delta=1e-5, bounds=(low, high),
                                  classes=["ill", "well"], ledger=ledgers)
model.fit(X, y, parties=hospital)
print(model.certificate_.text())

`PrivateGLM` has coefficients with valid intervals and tests.
`BayesianLinearRegression` and `BayesianLogisticRegression` answer with a `Posterior`.

Names are imported when they are first used: a party of a study needs the scaling of columns that is
here, and not scikit-learn, which takes 50 MB.
"""

from unisono.estimators.bayesian import BayesianLinearRegression, BayesianLogisticRegression
from unisono.estimators.classifiers import PrivateLinearSVC, PrivateLogisticRegression
from unisono.estimators.glm import PrivateGLM
from unisono.estimators.model_choice import PrivateSearch
from unisono.estimators.networks import PrivateClassifier, PrivateRegressor
from unisono.estimators.ridge import PrivateRidge
from unisono.estimators.search import Selected, private_search
from unisono.estimators.statements import (
    CrowdedTimes,
    DrownedByNoise,
    FewEvents,
    NotConverged,
    RepeatedFits,
    UnboundedFeatures,
)
from unisono.models.posterior import Posterior

__all__ = [
    "BayesianLinearRegression",
    "BayesianLogisticRegression",
    "CrowdedTimes",
    "DrownedByNoise",
    "FewEvents",
    "NotConverged",
    "Posterior",
    "PrivateClassifier",
    "PrivateGLM",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateRegressor",
    "PrivateRidge",
    "PrivateSearch",
    "RepeatedFits",
    "Selected",
    "UnboundedFeatures",
    "private_search",
]
