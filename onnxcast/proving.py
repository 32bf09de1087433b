"""What a proof is asked for: samples, and what passes."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxcast.errors import InputError
from onnxcast.formats import Format
from onnxcast.result import Samples
from onnxcast.verification.budgets import LABELS, REST, make_budget
from onnxcast.verification.comparison import Budget, Tolerance, default_tolerance
from onnxcast.verification.feeds import FeedSource, input_specs, load_labelled_feeds, random_feeds
from onnxcast.verification.metrics import Metric
from onnxcast.verification.restriction import chosen_outputs

__all__ = ["budget_of", "check_proof_options", "samples_of", "tolerance_of"]


def samples_of(
    model: ir.Model,
    inputs: FeedSource | None,
    shapes: Mapping[str, tuple[int, ...]] | None,
    outputs: Iterable[str] | None = None,
) -> Samples:
    """The samples that a model is run on, made up if none are given, and the outputs to compare.

    Raises:
        InputError: They do not fit the model, or it has no outputs, or not these.
    """
    if not model.graph.outputs:
        raise InputError(
            "the model has no outputs, so nothing can be compared: give one that has, or skip the "
            "proof with --no-verify"
        )
    specs = input_specs(model)
    chosen = None if outputs is None else chosen_outputs(model, list(outputs))
    if not (shapes is None or _is_shapes(shapes)):
        raise InputError(f"input shapes {shapes!r}: a dict from input names to shapes is wanted")
    if not (inputs is None or _is_feed_source(inputs)):
        raise InputError(
            f"inputs {inputs!r}: an .npz file, a folder, a dict of arrays or a list of dicts is "
            "wanted"
        )
    if inputs is None:
        made_up = random_feeds(specs, shapes=shapes or {})
        return Samples(made_up, "1 made-up sample, seed 0", [{} for _ in made_up], chosen)
    if shapes:
        raise InputError("input shapes are for a made-up sample: give them or inputs, not both")
    labels = (LABELS, *(value.name or "" for value in model.graph.outputs))
    found = load_labelled_feeds(inputs, specs, labels)
    origin = str(inputs) if isinstance(inputs, str | os.PathLike) else "memory"
    told = f"{len(found)} sample{'s' if len(found) > 1 else ''} from {origin}"
    return Samples([feeds for feeds, _ in found], told, [extra for _, extra in found], chosen)


def _is_shapes(given: object) -> bool:
    return isinstance(given, Mapping) and all(
        isinstance(shape, Sequence) and all(isinstance(size, int | np.integer) for size in shape)
        for shape in given.values()
    )


def _is_feed_source(given: object) -> bool:
    if isinstance(given, Sequence) and not isinstance(given, str):
        return all(isinstance(each, Mapping) for each in given)
    return isinstance(given, str | os.PathLike | Mapping)


def tolerance_of(given: float | Tolerance | None, narrow: Format) -> Tolerance:
    """The tolerance asked for, by default that of a format.

    Raises:
        InputError: It is no number from 0 on.
    """
    if given is None:
        return default_tolerance(narrow)
    limit = given if isinstance(given, Tolerance) else Tolerance(given, given)
    if not (_is_limit(limit.max) and _is_limit(limit.rms)):
        raise InputError(f"tolerance {given!r}: a number from 0 on is wanted, such as 0.01")
    return limit


def check_proof_options(given: Mapping[str, Any], *, proves: bool) -> None:
    """Refuse options of the search that contradict others."""
    searching = ("max_error", "metric", "budget_seconds")
    named = [name for name in searching if given[name] is not None]
    if named and not proves:
        raise InputError(f"{named[0]} without a proof: it is for the proof; drop one or the other")
    if given["max_error"] is None and given["metric"] is not None:
        raise InputError("metric without max_error: give the highest error that passes")
    if given["max_error"] is not None and given["tolerance"] is not None:
        raise InputError("max_error together with tolerance: both say what passes; drop one")
    seconds = given["budget_seconds"]
    if seconds is not None and (isinstance(seconds, bool) or not _is_limit(seconds)):
        raise InputError(f"budget_seconds {seconds!r}: a number of seconds from 0 on is wanted")


def budget_of(
    passes: Mapping[str, Any], model: ir.Model, samples: Samples, rest: Tolerance
) -> Budget | None:
    """The budget asked for; None if there is none."""
    given, metric = passes["max_error"], passes["metric"]
    if given is None:
        return None
    known = {each.value: each for each in Metric}
    chosen = known.get("relmax" if metric is None else str(metric))
    if chosen is None:
        raise InputError(f"unknown metric {metric!r}: known are {', '.join(known)}")
    limits = given if isinstance(given, Mapping) else {REST: given}
    return make_budget(limits, chosen, model.graph.outputs, samples.labels, rest)


def _is_limit(given: object) -> bool:
    """Whether this is a number from 0 on, which nan is not."""
    if not isinstance(given, int | float | np.floating):
        return False
    try:
        return float(given) >= 0
    except OverflowError:
        return False
