import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import pytest

from onnxcast.diagnostics import Code
from onnxcast.formats import FORMATS, Format, Kind, folds
from onnxcast.passes import FoldCastsPass
from onnxcast.targets import get_target
from tests import golden

Array = npt.NDArray[Any]

# ONNX's Cast takes no complex numbers; what it prints differs between runtimes.
CASTABLE = [each for each in FORMATS if each.kind not in (Kind.COMPLEX, Kind.STRING)]
SMALL = [each for each in CASTABLE if each.bits <= 16]


@golden.cases("fold_casts")
def test_fold_casts(case: golden.Case, update: bool) -> None:
    golden.check(case, FoldCastsPass(), update=update)


def all_values(format_: Format) -> Array:
    assert format_.dtype is not None
    dtype = format_.dtype.numpy()
    if format_.kind in (Kind.SIGNED, Kind.UNSIGNED, Kind.BOOL):
        return np.arange(int(format_.min), int(format_.max) + 1).astype(dtype)
    patterns = np.arange(2**format_.bits, dtype=np.uint16 if format_.bits == 16 else np.uint8)
    return patterns.view(dtype)


@np.errstate(all="ignore")
def cast(values: Array, target: Format, saturates: bool) -> Array:
    """ONNX's Cast, by numpy and ml_dtypes; float64 holds all values of the small formats."""
    assert target.dtype is not None
    wide = values.astype(np.float64)
    if target.kind is Kind.BOOL:
        return np.asarray(wide != 0)
    if saturates and target.kind is Kind.FLOAT and target.bits == 8 and target.signed:
        wide = np.clip(wide, target.min, target.max)
    return wide.astype(target.dtype.numpy())


@np.errstate(invalid="ignore")
def same(a: Array, b: Array) -> bool:
    if a.dtype.kind in "iub":
        return np.array_equal(a, b)
    a, b = a.astype(np.float64), b.astype(np.float64)
    signs = (np.signbit(a) == np.signbit(b)) | np.isnan(a)
    return np.array_equal(a, b, equal_nan=True) and bool(signs.all())


@pytest.mark.parametrize("source", SMALL, ids=str)
def test_a_folded_pair_gives_what_the_one_cast_gives_for_every_value(source: Format) -> None:
    values, folded = all_values(source), 0
    for middle, target in itertools.product(CASTABLE, CASTABLE):
        for saturates in (True, False):
            if not folds(source, middle, target, saturates=saturates):
                continue
            folded += 1
            wanted = cast(cast(values, middle, saturates), target, saturates)
            found = values if target == source else cast(values, target, saturates)
            assert same(wanted, found), (middle, target, saturates)
    assert folded


@pytest.mark.parametrize("source", SMALL, ids=str)
def test_a_pair_whose_first_cast_changes_a_value_is_never_folded(source: Format) -> None:
    values = all_values(source)
    for middle in CASTABLE:
        if source.kind is Kind.FLOAT and middle.kind is not Kind.FLOAT:
            continue  # what numpy makes of NaN is not ONNX's say
        if not same(cast(cast(values, middle, True), source, False), values):
            for target in CASTABLE:
                assert not folds(source, middle, target, saturates=False), (middle, target)


def test_each_fold_is_a_finding_that_names_the_pair() -> None:
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["" : 21]> agraph (float16[2] x) => (bfloat16[2] y) {'
        " a = Cast <to = 1> (x) b = Cast <to = 1> (a) y = Cast <to = 16> (b) }"
    )
    fold = FoldCastsPass()
    fold(model)
    assert [(finding.code, finding.message) for finding in fold.findings] == [
        (Code.CAST_IDENTITY_DROPPED, "float32 to itself: b now comes from a"),
        (Code.CAST_FOLDED, "float16 to float32 to bfloat16: y now comes from x"),
    ]
    fold(model)
    assert fold.findings == []


@pytest.mark.parametrize(
    ("chain", "folded"),
    [
        ("float16 float32 bfloat16", False),  # a5 has no such conversion, so none is made
        ("float16 float32 float16", True),  # none is left
        ("uint8 float32 float16", True),
        ("bool int64 float32", True),  # no target converts bool: it becomes a choice
        ("int8 int32 float32", False),
    ],
)
def test_no_cast_is_made_that_the_target_lacks(chain: str, folded: bool) -> None:
    source, middle, target = chain.split()
    numbers = {"float16": 10, "float32": 1, "bfloat16": 16, "int64": 7, "int32": 6}
    names = {"float32": "float"}
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
    agraph ({source}[2] x) => ({names.get(target, target)}[2] y) {{
        a = Cast <to = {numbers[middle]}> (x) y = Cast <to = {numbers[target]}> (a)
    }}"""
    model = ir.from_onnx_text(text)
    assert FoldCastsPass(get_target("a5").is_native)(model).modified == folded
    assert FoldCastsPass()(ir.from_onnx_text(text)).modified, "without a target all of them fold"
