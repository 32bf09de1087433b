from onnxcast.passes import NormalisePass
from tests import golden


@golden.cases("normalise")
def test_normalise(case: golden.Case, update: bool) -> None:
    golden.check(case, NormalisePass(), update=update)
