from onnxcast.planning import forget_pins, pin, pinned, unpin
from tests.planning.plans import load

TEXT = """g (float[2] x, bool c) => (float[2] y) {
    y = If (c) <then_branch = t () => (float[2] p) { p = Relu (x) },
                else_branch = e () => (float[2] q) { q = Neg (x) }>
}"""


def test_a_pin_is_written_on_its_node_and_taken_off() -> None:
    node = load(TEXT).graph[0]
    assert not pinned(node)
    pin(node, "y reaches 1e+05")
    assert dict(node.metadata_props) == {"onnxcast.pin": "y reaches 1e+05"}
    unpin(node)
    assert not node.metadata_props


def test_pins_of_all_scopes_are_forgotten() -> None:
    model = load(TEXT)
    nodes = [model.graph[0], model.graph[0].attributes["then_branch"].as_graph()[0]]
    for node in nodes:
        pin(node, "own error 0.5")
    assert forget_pins(model) == 2
    assert not any(pinned(node) for node in nodes)
    assert forget_pins(model) == 0
