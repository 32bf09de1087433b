from onnxcast.passes import SpecialiseFunctionsPass
from tests import golden


@golden.cases("specialise_functions")
def test_specialise_functions(case: golden.Case, update: bool) -> None:
    golden.check(case, SpecialiseFunctionsPass(), update=update)
