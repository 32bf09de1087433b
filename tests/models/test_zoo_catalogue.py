import importlib
import json
import re
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxcast_models
from onnxcast.policy import TOKENS, make_policy
from onnxcast_models.catalogue import CATALOGUE
from onnxcast_models.entries import Entry, Exported, Installed, Made, Packaged, Wheel
from onnxcast_models.expectations import PACKAGED
from onnxcast_models.fetch import fetch
from onnxcast_models.recipes.built import Built
from onnxcast_models.recipes.samples import SAMPLES
from onnxcast_models.suite import EVERY_MODE, SUITE

MADE = [entry for entry in CATALOGUE if isinstance(entry.origin, Made)]
BROUGHT = [entry for entry in CATALOGUE if isinstance(entry.origin, Installed | Wheel)]


def by_name(entry: Entry) -> str:
    name: str = entry.name
    return name


def test_names_are_unique_and_fit_file_names() -> None:
    names = [entry.name for entry in CATALOGUE]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9_]+", name) for name in names)


def test_every_model_has_a_licence_that_can_be_passed_on() -> None:
    assert {entry.licence for entry in CATALOGUE} <= {"MIT", "Apache-2.0", "CC-BY-4.0"}


def test_wheels_are_pinned_and_what_others_bring_is_hashed() -> None:
    for entry in BROUGHT:
        assert isinstance(entry.origin, Installed | Wheel)
        assert re.fullmatch(r"[0-9a-f]{64}", entry.origin.sha256)
        if isinstance(entry.origin, Wheel):
            assert re.fullmatch(r"\d+(\.\d+)+", entry.origin.version)


def test_what_comes_without_samples_has_a_maker_that_gives_the_same_each_time() -> None:
    assert SAMPLES.keys() == {entry.name for entry in BROUGHT}
    for name, maker in SAMPLES.items():
        for k in range(2):
            one, two = (maker(np.random.default_rng(k), k) for _ in range(2))
            assert one.keys() == two.keys()
            assert all(np.array_equal(one[key], two[key]) for key in one), name


def test_every_recipe_has_an_entry() -> None:
    folder = Path(str(onnxcast_models.__file__)).parent / "recipes"
    for module in {each.origin.module for each in CATALOGUE if isinstance(each.origin, Exported)}:
        text = (folder / f"{module}.py").read_text()
        recipes = re.findall(r'^    "(\w+)":', text[text.index("\nRECIPES") :], re.MULTILINE)
        recipes += re.findall(r'[{ ]"(\w+)": _', text[text.index("\nRECIPES") :])
        named = {
            each.name
            for each in CATALOGUE
            if isinstance(each.origin, Exported) and each.origin.module == module
        }
        assert set(recipes) == named


def test_every_model_of_onnx_that_is_light_is_there() -> None:
    folder = Path(str(onnx.__file__)).parent / "backend" / "test" / "data" / "light"
    light = {path.stem for path in folder.glob("*.onnx")}
    assert light
    assert light <= {entry.name for entry in CATALOGUE}


@pytest.mark.parametrize("entry", MADE, ids=by_name)
def test_what_our_code_builds_is_valid_runs_and_is_the_same_each_time(entry: Entry) -> None:
    assert isinstance(entry.origin, Made)
    module = importlib.import_module(f"onnxcast_models.recipes.{entry.origin.module}")
    built: Built = module.MODELS[entry.name]()
    onnx.checker.check_model(built.model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    data = built.model.SerializeToString(deterministic=True)
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    assert len(built.samples) == 2
    for sample in built.samples:
        assert all(np.isfinite(output).all() for output in session.run(None, dict(sample)))
    again: Built = module.MODELS[entry.name]()
    assert again.model.SerializeToString(deterministic=True) == data


def test_every_builder_has_an_entry() -> None:
    for module in {each.origin.module for each in MADE if isinstance(each.origin, Made)}:
        models = importlib.import_module(f"onnxcast_models.recipes.{module}").MODELS
        named = {
            each.name
            for each in MADE
            if isinstance(each.origin, Made) and each.origin.module == module
        }
        assert models.keys() == named


def test_quick_models_need_no_network_and_no_extra() -> None:
    quick = [entry for entry in CATALOGUE if "quick" in entry.tags]
    assert len(quick) > 20
    assert all(isinstance(each.origin, Packaged | Made | Installed) for each in quick)


def test_packaged_models_come_with_samples_and_labels(tmp_path: Path) -> None:
    packaged = [entry for entry in CATALOGUE if isinstance(entry.origin, Packaged)]
    assert packaged
    for entry in packaged:
        subject = fetch(entry, tmp_path)
        assert len(subject.samples) == 2
        assert subject.labels is not None


def test_a_tolerance_has_a_reason() -> None:
    assert all(entry.tolerance.reason for entry in CATALOGUE if entry.tolerance is not None)


def test_something_is_expected_of_every_model_in_the_modes_of_a_run() -> None:
    files = {path.stem: json.loads(path.read_text()) for path in PACKAGED.glob("*.json")}
    assert files.keys() == {entry.name for entry in CATALOGUE}
    wanted = {str(mode) for mode in SUITE}
    assert {
        name: wanted - modes.keys() for name, modes in files.items() if wanted - modes.keys()
    } == {}


def test_modes_are_the_tokens_each_once() -> None:
    tokens = [mode.token for mode in EVERY_MODE]
    assert set(tokens) == {make_policy(fp32_cast=token).token for token in TOKENS}
    assert len(set(tokens)) == len(tokens)
    assert {mode.token for mode in SUITE} <= set(tokens)
