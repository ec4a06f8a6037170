"""Function constants, what is computed from them, and kernels that share a source."""

import numpy as np
import pytest

from mps_ds import softmetal

SOURCE = """
constant bool negate [[function_constant(0)]];
constant float scale [[function_constant(1)]];
namespace settings {
constant int2 pair [[function_constant(2)]];
constant int sum = pair.x + pair.y;
}
constant bool has_scale = is_function_constant_defined(scale);
constant float factor = has_scale ? scale * 2 : 1.0;
constant int table[3] = {10, 20, 30};
constant constexpr int fixed = 5;

kernel void apply(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  float v = x[i] * factor;
  if (is_function_constant_defined(negate) && negate) v = -v;
  x[i] = v;
}
kernel void report(device int* out [[buffer(0)]]) {
  out[0] = has_scale; out[1] = is_function_constant_defined(settings::pair);
  out[2] = settings::sum; out[3] = table[1] + fixed;
}
constant bool wants_extra [[function_constant(7)]];
kernel void optional_argument(
    device int* out [[buffer(0)]],
    device const int* extra [[buffer(1), function_constant(wants_extra)]]) {
  out[0] = wants_extra ? extra[0] : -1;
}
[[max_total_threads_per_threadgroup(64)]] kernel void limited(device int* out [[buffer(0)]]) {
  out[0] = 1;
}
template <int n> [[max_total_threads_per_threadgroup(32 * n)]]
kernel void limited_by_template(device int* out [[buffer(0)]]) { out[0] = n; }
template [[host_name("limited_96")]] kernel void limited_by_template<3>(device int*);
[[kernel]] void attribute_form(device int* out [[buffer(0)]]) { out[0] = 2; }
template <typename T, int n = 3, typename U = metal::conditional_t<(n < 4), int, float>>
[[host_name("unused")]] kernel void many(device T* out [[buffer(0)]],
                                         uint i [[thread_position_in_grid]]) {
  out[i] = T(n) + T(sizeof(U)) + T(is_same_v<U, float>);
}
template [[host_name("many_float")]] kernel void many<float>(device float*, uint);
template [[host_name("many_" "half_9")]] kernel void many<half, 9>(device half*, uint);
template [[host_name("many_int")]] [[kernel]] void many<int, (1 > 0 ? 2 : 1)>(device int*, uint);
template [[host_name("by_type")]] kernel decltype(many<uint, 1>) many<uint, 1>;
namespace outer { namespace inner {
template <typename F> kernel void call(device float* out [[buffer(0)]]) { out[0] = F()(2.0); }
struct Twice { float operator()(float x) const { return 2 * x; } };
} }
template [[host_name("nested")]] kernel void outer::inner::call<outer::inner::Twice>(device float*);
"""


def test_a_kernel_sees_the_constants_of_its_pipeline(run):
    x = np.float32([1, 2])
    run(SOURCE, "apply", [x], 2)
    assert x.tolist() == [1, 2]
    run(SOURCE, "apply", [x], 2, constants={0: np.True_, 1: np.float32(3)})
    assert x.tolist() == [-6, -12]
    run(SOURCE, "apply", [x], 2, constants={"negate": np.False_})
    assert x.tolist() == [-6, -12]


def test_program_scope_constants_follow_from_function_constants(run):
    out = np.zeros(4, np.int32)
    run(SOURCE, "report", [out], 1, constants={1: np.float32(1)})
    assert out.tolist() == [1, 0, 0, 25]
    run(SOURCE, "report", [out], 1)
    assert out.tolist() == [0, 0, 0, 25]


def test_an_argument_may_depend_on_a_function_constant(run):
    out = np.zeros(1, np.int32)
    run(SOURCE, "optional_argument", [out], 1, constants={7: np.False_})
    assert out[0] == -1
    run(SOURCE, "optional_argument", [out, np.int32([5])], 1, constants={7: np.True_})
    assert out[0] == 5


@pytest.mark.parametrize(
    ("kernel", "dtype", "want"),
    [
        ("many_float", np.float32, 7),
        ("many_half_9", np.float16, 14),
        ("many_int", np.int32, 6),
        ("by_type", np.uint32, 5),
        ("nested", np.float32, 4),
        ("limited", np.int32, 1),
        ("attribute_form", np.int32, 2),
    ],
)
def test_template_instances_have_the_names_and_types_they_ask_for(run, kernel, dtype, want):
    out = np.zeros(2, dtype)
    run(SOURCE, kernel, [out], 1)
    assert out[0] == want


@pytest.mark.parametrize(("kernel", "limit"), [("limited", 64), ("limited_96", 96)])
def test_max_total_threads_per_threadgroup_is_kept(run, kernel, limit):
    run(SOURCE, kernel, [np.zeros(1, np.int32)], limit)
    with pytest.raises(Exception, match=f"{limit}"):
        run(SOURCE, kernel, [np.zeros(1, np.int32)], limit + 32)


NEEDED = """
constant int number [[function_constant(3)]];
constant int2 pair [[function_constant(4)]];
constant bool extra [[function_constant(5)]];
constant float unused [[function_constant(6)]];
constant int twice = 2 * number;
inline int through_a_function() { return twice; }
kernel void needs(device int* out [[buffer(0)]]) { out[0] = through_a_function(); }
template <int n> kernel void needs_pair(device int* out [[buffer(0)]]) { out[0] = n * pair.y; }
template [[host_name("pair_3")]] kernel void needs_pair<3>(device int*);
kernel void needs_none(device int* out [[buffer(0)]],
                       device int* more [[buffer(1), function_constant(extra)]]) { out[0] = 5; }
"""


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("needs", r"kernel 'needs' needs a value of the function constant 'number' \(index 3\)"),
        ("pair_3", r"kernel 'pair_3' needs a value of the function constant 'pair' \(index 4\)"),
    ],
)
@pytest.mark.parametrize("constants", [None, {}, {6: np.float32(1)}])
def test_a_constant_that_is_used_needs_a_value(run, kernel, message, constants):
    with pytest.raises(softmetal.MetalError, match=message):
        run(NEEDED, kernel, [np.zeros(1, np.int32)], 1, constants=constants)


def test_a_constant_that_is_not_used_needs_none(run):
    out = np.zeros(1, np.int32)
    run(NEEDED, "needs_none", [out], 1)
    assert out[0] == 5
    run(NEEDED, "needs", [out], 1, constants={"number": np.int32(4)})
    assert out[0] == 8


@pytest.mark.parametrize(
    ("value", "given"), [(np.float32(4), "float"), (np.uint32(4), "uint"), (np.int16(4), "short")]
)
def test_a_value_of_another_type_is_refused(run, value, given):
    message = rf"'number' \(index 3\) is int in the source, its value was set as {given}"
    with pytest.raises(softmetal.MetalError, match=message):
        run(NEEDED, "needs", [np.zeros(1, np.int32)], 1, constants={3: value})
