"""Every code that is printed anywhere is explained."""

import inspect
import re

import pytest

from onnxcast import InputError, diagnostics, errors
from onnxcast.codes import explain_code, known_codes
from onnxcast.diagnostics import Code
from onnxcast.planning import Reason, reasons

CODES = [
    *(reason.name for reason in Reason),
    *(code.name for code in Code),
    *(code.value for code in Code),
    *(name for name, each in vars(errors).items() if inspect.isclass(each) and name != "Mapping"),
]


@pytest.mark.parametrize("code", CODES)
def test_every_code_is_explained(code: str) -> None:
    found = explain_code(code.lower())
    assert code in found.code.split()
    assert found.short
    assert re.fullmatch(r"[A-Z].*\.", found.long, re.DOTALL)
    assert found.long.rstrip(".") != found.short


def test_nothing_is_explained_that_does_not_exist() -> None:
    assert set(reasons.EXPLAINED) == set(Reason)
    assert set(diagnostics.EXPLAINED) == set(Code)
    assert set(known_codes()) == set(CODES)


def test_options_in_the_texts_exist() -> None:
    from onnxcast_cli import command
    from onnxcast_cli.optimize import optimize

    assert command.commands["optimize"] is optimize
    known = {option for each in optimize.params for option in each.opts}
    for text in known_codes().values():
        assert set(re.findall(r"--[a-z0-9-]+", text.long)) <= known, text


def test_an_unknown_code_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"code 'ACUMULATING': .*; try ACCUMULATING"):
        explain_code("ACUMULATING")
