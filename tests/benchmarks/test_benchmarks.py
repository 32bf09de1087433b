"""The benchmarks run: what they time is what they say. Their figures are for people."""

from tests.benchmarks import legalise, placement


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
    islands, carriers, whole = placement.timed(placement.graph(100))
    assert min(islands, carriers) > 0
    assert islands + carriers < whole
