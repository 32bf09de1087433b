"""Files: any kind of model read and checked, weights in chunks, and the one commit of a result."""

from onnxcast.files.kinds import is_special
from onnxcast.files.maps import from_proto, to_proto
from onnxcast.files.outputs import check_location, check_output, default_output
from onnxcast.files.ranges import WeightRange, measure_small, weight_range
from onnxcast.files.read import Source, collector_paused, read_model
from onnxcast.files.slots import Slot, attribute_tensors, tensor_slots
from onnxcast.files.weights import NarrowedTensor, WidenedTensor, chunks
from onnxcast.files.write import Progress, commit, commit_together

__all__ = [
    "NarrowedTensor",
    "Progress",
    "Slot",
    "Source",
    "WeightRange",
    "WidenedTensor",
    "attribute_tensors",
    "check_location",
    "check_output",
    "chunks",
    "collector_paused",
    "commit",
    "commit_together",
    "default_output",
    "from_proto",
    "is_special",
    "measure_small",
    "read_model",
    "tensor_slots",
    "to_proto",
    "weight_range",
]
