from tests import golden

from onnxcast.passes import FoldCastsPass


@golden.cases("fold_casts")
def test_fold_casts(case: golden.Case, update: bool) -> None:
    golden.check(case, FoldCastsPass(), update=update)
