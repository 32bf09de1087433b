"""The benchmarks run: what they time is what they say. Their figures are for people."""

from pathlib import Path

import numpy as np
import onnx

from tests.benchmarks import legalise, placement, search
from tests.networks import network, sample


def test_a_fifth_of_the_nodes_are_casts_and_are_legalised() -> None:
    model = legalise.chain(200)
    ops = [node.op_type for node in model.graph]
    assert (len(ops), ops.count("Cast")) == (200, 40)
    for pass_ in legalise.passes():
        pass_(model)
    ops = [node.op_type for node in model.graph]
    # Ten Casts to bool and ten from it are gone, ten are done in two.
    assert (ops.count("Equal"), ops.count("Where"), ops.count("Cast")) == (10, 10, 30)


def test_a_random_graph_is_cut_and_planned() -> None:
    cut, whole = placement.timed(placement.graph(100))
    assert 0 < cut < whole


def test_a_search_is_told_in_a_row_and_leaves_no_needless_pin(tmp_path: Path) -> None:
    path = tmp_path / "faulty.onnx"
    onnx.save(network(4, [(2, "cancellation")]), path)
    np.savez(path.with_suffix(".npz"), x=sample()["x"])
    result, seconds = search.found(path, "all-fp16", 1e-2)
    assert result is not None
    assert seconds > 0
    assert search.needless(path, result) == 0
    assert search.row(path, "all-fp16", minimal=False, peer=False).startswith("faulty | all-fp16 |")
