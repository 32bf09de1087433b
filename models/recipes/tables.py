"""Recipes for models of scikit-learn, on data sets that it brings along."""

__all__ = ["RECIPES"]

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from skl2onnx import to_onnx
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from .built import Array, Built

_ROWS = 16


def _built(model: Any, rows: Array, targets: Array, opsets: int, labels: bool) -> Built:
    """Fit on all rows but the last, which are the samples."""
    held = 2 * _ROWS
    rows = rows.astype(np.float32)
    model.fit(rows[:-held], targets[:-held])
    options = {MLPClassifier: {"zipmap": False}} if labels else None
    proto = to_onnx(model, rows[:1], target_opset=opsets, options=options)
    parts = (slice(-held, -_ROWS), slice(-_ROWS, None))
    return Built(
        proto,
        [{"X": rows[part]} for part in parts],
        [targets[part].astype(np.int64) for part in parts] if labels else (),
    )


def _perceptron() -> Built:
    data = load_breast_cancer()
    network = MLPClassifier((24, 12), random_state=0, max_iter=400)
    return _built(make_pipeline(StandardScaler(), network), data.data, data.target, 17, True)


def _trees() -> Built:
    data = load_diabetes()
    trees = GradientBoostingRegressor(n_estimators=40, random_state=0)
    return _built(trees, data.data, data.target, 15, False)


RECIPES: Mapping[str, Callable[[], Built]] = {"skl_gbr": _trees, "skl_mlp": _perceptron}
