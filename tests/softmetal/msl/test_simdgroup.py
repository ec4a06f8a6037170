"""Simdgroup and quadgroup operations of 32 lanes, whole, partial and divergent."""

import numpy as np
import pytest

LANES = 32


def one(name, body, t="uint", out="uint"):
    return f"""
kernel void {name}(device {out}* out [[buffer(0)]], device const {t}* x [[buffer(1)]],
                   uint i [[thread_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {{
  {t} v = x[i];
  {body}
}}"""


SHUFFLES = {
    "broadcast": ("simd_broadcast(v, 5)", lambda lane: 5),
    "shuffle": ("simd_shuffle(v, 31 - lane)", lambda lane: 31 - lane),
    "exclusive_or": ("simd_shuffle_xor(v, 7)", lambda lane: lane ^ 7),
    "down": ("simd_shuffle_down(v, 3)", lambda lane: lane + 3 if lane + 3 < 32 else lane),
    "up": ("simd_shuffle_up(v, 3)", lambda lane: lane - 3 if lane >= 3 else lane),
    "rotate_down": ("simd_shuffle_rotate_down(v, 3)", lambda lane: (lane + 3) % 32),
    "rotate_up": ("simd_shuffle_rotate_up(v, 3)", lambda lane: (lane - 3) % 32),
    "first": ("simd_broadcast_first(v)", lambda lane: 0),
    "quad_broadcast": ("quad_broadcast(v, 2)", lambda lane: lane // 4 * 4 + 2),
    "quad_xor": ("quad_shuffle_xor(v, 1)", lambda lane: lane ^ 1),
    "quad_down": (
        "quad_shuffle_down(v, 1)",
        lambda lane: lane + 1 if lane % 4 < 3 else lane,
    ),
    "quad_rotate_up": (
        "quad_shuffle_rotate_up(v, 1)",
        lambda lane: lane // 4 * 4 + (lane - 1) % 4,
    ),
}
SHUFFLE_SOURCE = "".join(one(n, f"out[i] = {call};") for n, (call, _) in SHUFFLES.items())

FOLDS = {
    "sum": np.add,
    "product": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
FOLD_SOURCE = "".join(
    one(f"simd_{n}", f"out[i] = simd_{n}(v);") + one(f"quad_{n}", f"out[i] = quad_{n}(v);")
    for n in FOLDS
)

HALF_SUMS = "if (lane < 16) v = simd_sum(v);\n  "
ARMS = "if (lane < 16) {{\n    v = {};\n  }} else {{\n    v = {};\n  }}\n  out[i] = v;"

SOURCE = "\n".join(
    [
        one("fill_down", "out[i] = simd_shuffle_and_fill_down(v, 99, 3);"),
        one("fill_up_8", "out[i] = simd_shuffle_and_fill_up(v, lane, 3, 8);"),
        one(
            "prefix", "out[i] = simd_prefix_inclusive_sum(v) * 1000 + simd_prefix_exclusive_sum(v);"
        ),
        one("prefix_product", "out[i] = simd_prefix_exclusive_product(v);"),
        one("ballot", "out[i] = uint(simd_vote::vote_t(simd_ballot(v > 40)));"),
        one(
            "votes",
            "out[i] = simd_any(v > 40) | simd_all(v > 40) << 1 | simd_is_first() << 2"
            " | quad_any(v > 40) << 3 | quad_all(v > 40) << 4;",
        ),
        one("vectors", "out[i] = simd_sum(v);", "float4", "float4"),
        one("halves", "out[i] = simd_max(v) + simd_shuffle_down(v, 1);", "half", "half"),
        one("divergent", HALF_SUMS + "simdgroup_barrier(mem_flags::mem_none);\n  out[i] = v;"),
        one(
            "before_barrier", HALF_SUMS + "threadgroup_barrier(mem_flags::mem_none);\n  out[i] = v;"
        ),
        one("in_arms", ARMS.format("simd_sum(v)", "simd_max(v)")),
        one("same_in_arms", ARMS.format("simd_sum(v)", "simd_sum(2 * v)")),
        one("returned", "if (lane >= 20) return;\n  out[i] = simd_sum(v);"),
        one("beyond", "out[i] = simd_shuffle_down(v, 16);", "float", "float"),
        one(
            "in_loop",
            "for (uint k = 0; k < 50; ++k) v = simd_shuffle_rotate_down(v, 1);\n  out[i] = v;",
        ),
        """
kernel void tree(device float* out [[buffer(0)]], device const float* x [[buffer(1)]],
                 uint i [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
                 uint simdgroup [[simdgroup_index_in_threadgroup]],
                 uint simdgroups [[simdgroups_per_threadgroup]],
                 uint width [[threads_per_simdgroup]]) {
  threadgroup float partial[32];
  float v = x[i];
  for (uint delta = width / 2; delta > 0; delta /= 2) v += simd_shuffle_down(v, delta);
  if (lane == 0) partial[simdgroup] = v;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (simdgroup == 0) {
    v = lane < simdgroups ? partial[lane] : 0.0;
    for (uint delta = width / 2; delta > 0; delta /= 2) v += simd_shuffle_down(v, delta);
    if (lane == 0) *out = v;
  }
}
struct Sum {
  template <typename T> T operator()(T v) const { return simd_sum(v); }
};
template <typename Op>
kernel void apply(device uint* out [[buffer(0)]], device const uint* x [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) {
  out[i] = Op()(x[i]);
}
using Reduction = Sum;
template [[host_name("functor")]] kernel void apply<Reduction>(
    device uint*, device const uint*, uint);
""",
    ]
)


def values(count, high=60):
    return np.random.default_rng(0).integers(1, high, count).astype(np.uint32)


@pytest.mark.parametrize("name", SHUFFLES)
def test_a_shuffle_reads_another_lane(run, name):
    _, source_lane = SHUFFLES[name]
    x, out = values(64), np.zeros(64, np.uint32)
    run(SHUFFLE_SOURCE, name, [out, x], 64)
    want = [x[i // 32 * 32 + source_lane(i % 32)] for i in range(64)]
    assert out.tolist() == want


@pytest.mark.parametrize("kind", ["simd", "quad"])
@pytest.mark.parametrize("name", FOLDS)
def test_a_reduction_covers_the_lanes_that_exist(run, name, kind):
    x, out = values(70), np.zeros(70, np.uint32)
    run(FOLD_SOURCE, f"{kind}_{name}", [out, x], 70)
    width = {"simd": 32, "quad": 4}[kind]
    for i in range(70):
        begin = i // width * width
        assert out[i] == FOLDS[name].reduce(x[begin : begin + width], dtype=np.uint32), i


def evaluate(run, kernel, x, out=None, **options):
    out = np.zeros_like(x) if out is None else out
    run(SOURCE, kernel, [out, x], len(x), **options)
    return out


def test_fills_come_from_the_argument_within_groups_of_modulo_lanes(run):
    x = values(32)
    assert evaluate(run, "fill_down", x).tolist() == [*x[3:], 99, 99, 99]
    want = [x[i - 3] if i % 8 >= 3 else i for i in range(32)]
    assert evaluate(run, "fill_up_8", x).tolist() == want


def test_prefix_operations(run):
    x = values(32)
    sums = np.cumsum(x)
    assert evaluate(run, "prefix", x).tolist() == (sums * 1000 + sums - x).tolist()
    x = values(32, 3)
    want = np.concatenate([[1], np.cumprod(x, dtype=np.uint32)[:-1]])
    assert evaluate(run, "prefix_product", x).tolist() == want.tolist()


def test_votes(run):
    x = values(64)
    bits = [sum(1 << k for k in range(32) if x[b + k] > 40) for b in (0, 32)]
    assert evaluate(run, "ballot", x).tolist() == [bits[0]] * 32 + [bits[1]] * 32
    x = np.uint32([50] * 32 + [10] * 28 + [50] * 4)
    got = evaluate(run, "votes", x)
    assert got.tolist() == [31, *[27] * 31, 5, *[1] * 27, *[25] * 4]


def test_vectors_and_halves(run):
    x = np.arange(128, dtype=np.float32).reshape(32, 4)
    assert np.array_equal(evaluate(run, "vectors", x), np.tile(x.sum(axis=0), (32, 1)))
    x = np.arange(32, dtype=np.float16)
    want = 31 + np.append(x[1:], x[31])
    assert np.array_equal(evaluate(run, "halves", x), want.astype(np.float16))


@pytest.mark.parametrize("size", [32, 64, 256, 1024])
def test_a_threadgroup_reduction_by_shuffle_trees(run, size):
    x = np.random.default_rng(1).integers(0, 100, size).astype(np.float32)
    out = np.zeros(1, np.float32)
    run(SOURCE, "tree", [out, x], size)
    assert out[0] == x.sum()


def test_lanes_that_do_not_exist_are_poison_for_a_shuffle(run):
    x = np.ones(20, np.float32)
    got = evaluate(run, "beyond", x)
    assert (got[:4] == 1).all()
    assert np.isnan(got[4:16]).all()
    assert (got[16:] == 1).all()


def test_lanes_that_returned_take_no_part(run):
    x = values(32)
    assert evaluate(run, "returned", x).tolist() == [int(x[:20].sum())] * 20 + [0] * 12


def test_a_divergent_operation_is_that_of_its_active_lanes(run):
    x = values(64)
    want = x.copy()
    for begin in (0, 32):
        want[begin : begin + 16] = x[begin : begin + 16].sum()
    assert evaluate(run, "before_barrier", x).tolist() == want.tolist()


def test_operations_in_a_loop(run):
    x = values(32)
    assert evaluate(run, "in_loop", x).tolist() == np.roll(x, -50).tolist()


def test_an_operation_inside_a_functor_that_an_alias_names_is_found(run):
    x = values(32)
    assert evaluate(run, "functor", x).tolist() == [int(x.sum())] * 32


@pytest.mark.parametrize("kernel", ["in_arms", "same_in_arms", "divergent"])
def test_different_operations_at_once_are_refused_with_both_places(run, kernel):
    with pytest.raises(Exception, match="wait at different simdgroup operations") as error:
        evaluate(run, kernel, values(32))
    names = {
        "in_arms": ["simd_sum", "simd_max"],
        "same_in_arms": ["simd_sum"],
        "divergent": ["simd_sum", "simdgroup_barrier"],
    }
    for name in names[kernel]:
        assert f"{name} at program_source:" in str(error.value)


@pytest.mark.parametrize("t", ["long", "ulong", "bfloat", "bfloat2"])
def test_types_that_metal_does_not_exchange_are_refused(run, t):
    source = f"kernel void k(device {t}* x) {{ x[0] = simd_sum(x[0]); }}"
    with pytest.raises(
        Exception, match="simdgroup operations take scalars and vectors of 8, 16 and 32"
    ):
        run(source, "k", [np.zeros(32, np.int64)], 32)
