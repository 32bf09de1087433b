"""The golden cases of every pass that needs no arguments; the others have a test of their own."""

import inspect

import pytest

from onnxcast import passes
from tests import golden


def stem(name: str) -> str:
    return str(getattr(passes, name).__module__).rpartition(".")[2]


def needs_arguments(name: str) -> bool:
    signature = inspect.signature(getattr(passes, name))
    return any(each.default is each.empty for each in signature.parameters.values())


PLAIN = [name for name in passes.__all__ if not needs_arguments(name)]
CASES = [(name, case) for name in PLAIN for case in golden.read(stem(name))]


@pytest.mark.parametrize(
    ("name", "case"), CASES, ids=[f"{stem(name)}: {case.title}" for name, case in CASES]
)
def test_golden(name: str, case: golden.Case, update: bool) -> None:
    golden.check(case, getattr(passes, name)(), update=update)


@pytest.mark.parametrize("name", passes.__all__)
def test_a_pass_has_golden_cases_of_both_kinds_and_a_test_that_runs_them(name: str) -> None:
    cases = golden.read(stem(name))
    changed = [bool(case.after) for case in cases]
    assert set(changed) == {False, True}
    assert changed == sorted(changed), "what must not change comes first"
    assert len({case.title for case in cases}) == len(cases), "two cases have the same title"
    if name not in PLAIN:
        test = (golden.FOLDER / f"test_{stem(name)}.py").read_text()
        assert f'@golden.cases("{stem(name)}")' in test
        assert name in test
