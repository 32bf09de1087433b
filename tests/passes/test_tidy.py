from onnxcast.passes import TidyPass
from tests import golden


@golden.cases("tidy")
def test_tidy(case: golden.Case, update: bool) -> None:
    golden.check(case, TidyPass(), update=update)
