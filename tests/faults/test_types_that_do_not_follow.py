"""Ops whose result's type does not follow their operands': attributes, defaults, references."""

import numpy as np
import pytest

from tests.faults.conversions import both_formats, convert, parse


@both_formats
def test_a_cast_to_float_between_narrow_ops_keeps_what_it_says(dtype: str) -> None:
    found = convert(
        """g (int64[3,4] ids, float[3,4] x) => (float[3,2] y) <float[4,2] W, float s = {0.25}> {
            [up] f = Cast <to = 1> (ids) p = Mul (f, s) a = Add (x, p) y = MatMul (a, W)
        }""",
        dtype,
    )
    assert found.named("up")[0].gives == ["FLOAT"]
    assert found.is_narrow("MatMul")


@both_formats
def test_a_cast_from_a_byte_feeds_narrow_ops(dtype: str) -> None:
    found = convert(
        """g (uint8[3,4] image) => (float[3,2] y) <float[4,2] W, float s = {0.0625}> {
            f = Cast <to = 1> (image) n = Mul (f, s) y = MatMul (n, W)
        }""",
        dtype,
        feeds={"image": np.arange(12, dtype=np.uint8).reshape(3, 4) * 23},
    )
    assert found.is_narrow("MatMul", "Mul")


@pytest.mark.parametrize("attribute", ["", "<value = float[1] {-1.5}>"])
@both_formats
def test_a_fill_with_or_without_its_attribute_meets_narrow_operands(
    dtype: str, attribute: str
) -> None:
    found = convert(
        f"""g (float[3,4] x, bool[3,5] c) => (float[3,2] y) <float[4,5] W, float[10,2] V> {{
            h = MatMul (x, W) s = Shape (h) k = ConstantOfShape {attribute} (s)
            w = Where (c, h, k) j = Concat <axis = 1> (w, k) y = MatMul (j, V)
        }}""",
        dtype,
    )
    assert found.is_narrow("MatMul")


@pytest.mark.parametrize(
    "node",
    [
        "r = RandomNormal <shape = [3, 5], seed = 1.0> ()",
        "r = RandomUniform <shape = [3, 5], seed = 1.0> ()",
        "r = RandomNormalLike <seed = 1.0> (h)",
        "r = RandomUniformLike <seed = 1.0, dtype = 1> (h)",
        "r = EyeLike (h)",
        "r = EyeLike <dtype = 1> (h)",
        "t = Cast <to = 6> (h) r = EyeLike <dtype = 1> (t)",
        "r = Bernoulli <seed = 1.0> (p)",
        "r = Bernoulli <dtype = 1, seed = 1.0> (p)",
        "u = HannWindow (five) r = Add (h, u)",
        "u = BlackmanWindow <output_datatype = 1> (five) r = Add (h, u)",
        "u = Constant <value_float = 0.25> () r = Add (h, u)",
        "u = Constant <value_floats = [1.0, 2.0, 3.0, 4.0, 5.0]> () r = Mul (h, u)",
        "i = Cast <to = 7> (p) r = OneHot <axis = 0> (idx, three, onoff)",
        "u = Range (zero, fivef, one) r = Add (h, u)",
    ],
)
@both_formats
def test_generators_and_constants_are_valid_beside_narrow_ops(dtype: str, node: str) -> None:
    random = "Random" in node or "Bernoulli" in node
    found = convert(
        f"""g (float[3,4] x) => (float[3,2] y)
        <float[4,5] W, float[5,2] V, int64 five = {{5}}, int64[5] idx = {{0, 2, 1, 0, 2}},
         int64 three = {{3}}, float[2] onoff = {{0.5, 2.0}}, float zero = {{0.0}},
         float fivef = {{5.0}}, float one = {{1.0}}> {{
            h = MatMul (x, W) p = Sigmoid (h) {node} a = Add (p, r) y = MatMul (a, V)
        }}""",
        dtype,
        by="nothing" if random else "reference",
    )
    assert found.is_narrow("MatMul")


@both_formats
def test_a_random_fill_keeps_the_type_that_its_readers_expect(dtype: str) -> None:
    found = convert(
        """g (float[3,4] x) => (float[3,4] y, float[3,4] n) {
            h = Relu (x) n = RandomNormalLike <seed = 1.0> (h) y = Mul (h, n)
        }""",
        dtype,
        by="nothing",
    )
    assert found.is_narrow("Mul")


SEQUENCE = """g (float[3,4] x) => (float[3,2] y)
    <float[4,6] W, float[6,2] V, int64 two = {2}, int64 i = {0}, int64 j = {2}> {
    h = MatMul (x, W) [split] s = SplitToSequence <axis = 1> (h, two)
    [at] a = SequenceAt (s, i) b = SequenceAt (s, j) n = Mul (a, b) o = Abs (n) m = Neg (o)
    [empty] e = SequenceEmpty <dtype = 1> () [one] e1 = SequenceInsert (e, m)
    [two] e2 = SequenceInsert (e1, a) [three] e3 = SequenceInsert (e2, b)
    [join] c = ConcatFromSequence <axis = 1> (e3) y = MatMul (c, V)
}"""


@both_formats
def test_sequences_stay_wide_as_one_group(dtype: str) -> None:
    found = convert(SEQUENCE, dtype)
    assert found.is_wide("split", "at", "empty", "one", "two", "three", "join")
    assert found.is_narrow("MatMul", "Mul")


@both_formats
def test_a_sequence_without_a_dtype_is_one_of_floats(dtype: str) -> None:
    found = convert(
        """g (float[3,4] x) => (float[3,4] y) <float[4,4] W, int64 i = {0}> {
            h = MatMul (x, W) e = SequenceEmpty () s = SequenceInsert (e, h)
            a = SequenceAt (s, i) r = Relu (a) y = Neg (r)
        }""",
        dtype,
    )
    assert found.is_wide("SequenceInsert", "SequenceAt")
    assert found.is_narrow("MatMul", "Relu")


@both_formats
def test_a_sequence_may_be_input_and_output_of_the_graph(dtype: str) -> None:
    found = convert(
        """g (seq(float[3,4]) s) => (seq(float[3,4]) t, float[3,2] y)
        <float[4,2] W, int64 i = {1}> {
            t = SequenceErase (s, i) a = SequenceAt (s, i) y = MatMul (a, W)
        }""",
        dtype,
        by="nothing",
    )
    assert found.is_wide("SequenceErase", "SequenceAt")
    assert found.is_narrow("MatMul")


@both_formats
def test_a_sequence_map_narrows_inside_its_body_only(dtype: str) -> None:
    found = convert(
        """g (float[4,4] x) => (float[4,4] y) <float[4,4] W> {
            s = SplitToSequence <axis = 0, keepdims = 1> (x)
            m = SequenceMap <body = b (float[1,4] e) => (float[1,4] o) {
                p = MatMul (e, W) o = Relu (p)
            }> (s)
            y = ConcatFromSequence <axis = 0> (m)
        }""",
        dtype,
        by="nothing",
    )
    assert found.is_wide("SplitToSequence", "ConcatFromSequence")
    assert found.is_narrow("MatMul")


@both_formats
def test_an_optional_stays_wide_with_what_it_holds(dtype: str) -> None:
    found = convert(
        """g (float[3,4] x) => (float[3,2] y) <float[4,4] W, float[4,2] V> {
            h = MatMul (x, W) o = Optional (h) a = OptionalGetElement (o) y = MatMul (a, V)
        }""",
        dtype,
        by="twin",
    )
    assert found.is_wide("Optional", "OptionalGetElement")
    assert found.is_narrow("MatMul")


@both_formats
def test_an_optional_without_an_element_is_left_alone(dtype: str) -> None:
    found = convert(
        """g (float[3,4] x) => (bool has, float[3,4] y) <float[4,4] W> {
            o = Optional <type: type_proto = float[3,4]> ()
            has = OptionalHasElement (o) y = MatMul (x, W)
        }""",
        dtype,
        by="nothing",
    )
    assert found.is_narrow("MatMul")


@pytest.mark.parametrize("opset", [12, 13, 22])
@both_formats
def test_the_ratio_and_the_mask_of_a_dropout_are_no_data(dtype: str, opset: int) -> None:
    found = convert(
        parse(
            """g (float[3,4] x) => (float[3,5] y)
            <float[4,5] W, float ratio = {0.3}, bool train = {0}> {
                h = MatMul (x, W) [drop] d, mask = Dropout (h, ratio, train)
                f = Cast <to = 1> (mask) m = Mul (d, f) y = Where (mask, m, h)
            }""",
            opset=opset,
        ),
        dtype,
    )
    [drop] = found.named("drop")
    assert drop.reads[1:] == ["FLOAT", "BOOL"]
    assert drop.gives[1] == "BOOL"
    assert found.is_narrow("MatMul", "drop")


@both_formats
def test_a_cast_like_follows_its_reference_as_the_source_had_it(dtype: str) -> None:
    found = convert(
        """g (int64[3,4] i, float[3,4] x) => (float[3,4] s, int64[3,4] k) <float[4,4] W> {
            c = CastLike (i, W) h = MatMul (c, W) l = CastLike (h, x) s = Add (l, x)
            k = CastLike (x, i)
        }""",
        dtype,
        feeds={"i": np.arange(12).reshape(3, 4) - 6},
    )
    assert found.count("CastLike") == 0
    assert found.is_narrow("MatMul", "Add")


@both_formats
def test_a_cast_like_a_narrow_value_of_the_source_rounds_as_before(dtype: str) -> None:
    found = convert(
        """g (float[3,4] x, float16[1] like) => (float[3,2] y, float16[3,4] n) <float[4,2] W> {
            n = CastLike (x, like) w = CastLike (n, x) y = MatMul (w, W)
        }""",
        dtype,
    )
    assert found.is_narrow("MatMul")


@pytest.mark.parametrize("opset", [9, 14, 15, 22])
@both_formats
def test_the_running_statistics_of_a_batch_norm_keep_their_range(dtype: str, opset: int) -> None:
    found = convert(
        parse(
            """g (float[2,2,4,4] x) => (float[2,3,4,4] y)
            <float[3,2,1,1] W, float[3] g, float[3] b, float[3] m, float[3] v = {1.0, 9e4, 4e-6}> {
                c = Conv (x, W) [norm] n = BatchNormalization (c, g, b, m, v) y = Relu (n)
            }""",
            opset=opset,
        ),
        dtype,
        tolerance=2e-2 if dtype == "float16" else 8e-2,
        by="twin",  # the reference implementation of opset 9 mixes up its operands
    )
    assert found.named("norm")[0].reads[3:] == ["FLOAT", "FLOAT"]
    assert found.is_narrow("Conv" if dtype == "float16" or opset == 22 else "Relu")


@both_formats
def test_the_values_of_a_one_hot_and_its_depth_are_apart(dtype: str) -> None:
    found = convert(
        """g (float[3] i, float[4,3] x) => (float[3,3] y) <float[2] v = {0.0, 1.0}, float d = {4.0}>
        { o = OneHot (i, d, v) y = MatMul (o, x) }""",
        dtype,
        feeds={"i": np.array([0, 3, 1], np.float32)},
    )
    assert found.is_narrow("MatMul")


@both_formats
def test_the_indices_of_topk_and_pooling_stay_integers(dtype: str) -> None:
    found = convert(
        """g (float[1,2,4,4] x) => (float[1,2,2,2] y, int64[1,2,2,2] at, int64[1,2,4,2] best)
        <float[2,2,1,1] W, int64[1] k = {2}> {
            y, at = MaxPool <kernel_shape = [2,2], strides = [2,2]> (x)
            c = Conv (x, W) v, best = TopK (x, k)
        }""",
        dtype,
    )
    assert found.is_wide("TopK")


@both_formats
def test_a_recurrent_layer_with_left_out_operands_and_results_is_valid(dtype: str) -> None:
    found = convert(
        parse(
            """g (float[5,2,3] x, float[1,2,4] h0) => (float[1,2,4] y, float[1,2,4] c)
            <float[1,16,3] W, float[1,16,4] R> {
                , y, c = LSTM <hidden_size = 4> (x, W, R, , , h0)
            }""",
            opset=14,
        ),
        dtype,
        by="nothing",
    )
    assert found.count("LSTM") == 1
