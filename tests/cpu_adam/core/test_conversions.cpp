// Every 16-bit value, and float32 values around every place where rounding turns. A step whose
// learning rate is 0 stores the param as it is; one with beta1 = 0 stores the gradient as its mean.
#include <algorithm>

#include "support.h"

namespace {

constexpr Options kKeep = {"keep", 0, 0,        0.5,  1,  0, true, false,
                           false,  1, INFINITY, true, {}, 1, 1};

// From the definition of the formats, not from the code under test.
double value_of(uint16_t bits, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits;
  const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

bool equal(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || a == b;
}

// As gradients; their means are the same numbers in float32.
void test_loads(Storage storage, int exponent_bits) {
  constexpr int64_t kCount = 65536;
  std::vector<float> param(kCount), exp_avg(kCount), exp_avg_sq(kCount);
  std::vector<uint16_t> grad(kCount);
  for (int64_t i = 0; i < kCount; ++i) grad[i] = static_cast<uint16_t>(i);
  AdamTensors t{param.data(), grad.data(), exp_avg.data(), exp_avg_sq.data()};
  t.grad_type = storage;
  adam_step(t, {}, 0, kCount, hyper_of(kKeep), Arithmetic::kPlain);
  for (int64_t i = 0; i < kCount; ++i)
    check(equal(exp_avg[i], value_of(grad[i], exponent_bits)), "%s 0x%04x is loaded as %g",
          name(storage), grad[i], static_cast<double>(exp_avg[i]));
}

struct Rounding {
  float from;
  uint16_t to;
};

void add_both(std::vector<Rounding>& all, float from, uint16_t to) {
  all.push_back({from, to});
  all.push_back({-from, static_cast<uint16_t>(to | 0x8000)});
}

// Between each finite value and the next: the halfway point goes to the even one, its neighbours
// to the nearer one. The value after the largest finite one is infinity.
std::vector<Rounding> roundings(int exponent_bits) {
  const uint16_t infinity = static_cast<uint16_t>(0x7fff << (15 - exponent_bits) & 0x7fff);
  std::vector<Rounding> all;
  for (uint16_t low = 0; low < infinity; ++low) {
    const uint16_t high = low + 1;
    const double a = value_of(low, exponent_bits);
    const double step =
        high == infinity ? a - value_of(low - 1, exponent_bits) : value_of(high, exponent_bits) - a;
    const float middle = static_cast<float>(a + step / 2);
    add_both(all, static_cast<float>(a), low);
    if (!std::isfinite(middle)) continue;
    if (exponent_bits == 5 || middle != static_cast<float>(a)) {
      add_both(all, middle, low % 2 ? high : low);
      add_both(all, std::nextafterf(middle, 0), low);
      if (std::nextafterf(middle, INFINITY) < INFINITY)
        add_both(all, std::nextafterf(middle, INFINITY), high);
    }
  }
  add_both(all, INFINITY, infinity);
  return all;
}

std::vector<uint16_t> stored(const std::vector<float>& values, Storage storage, bool as_copy) {
  std::vector<uint16_t> result(values.size());
  std::vector<float> zeros(values.size()), exp_avg(values.size()), exp_avg_sq(values.size());
  std::vector<float> param = values;
  AdamTensors t{param.data(), zeros.data(), exp_avg.data(), exp_avg_sq.data()};
  if (as_copy) {
    t.param_copy = result.data();
    t.copy_type = storage;
    adam_step(t, {}, 0, static_cast<int64_t>(values.size()), hyper_of(kKeep), Arithmetic::kPlain);
  } else {  // the mean of a gradient, in 16 bits
    std::vector<uint16_t> square(values.size());
    t.param = zeros.data();
    t.param_type = storage;
    t.grad = values.data();
    t.exp_avg = result.data();
    t.exp_avg_sq = square.data();
    t.state_type = storage;
    adam_step(t, {}, 0, static_cast<int64_t>(values.size()), hyper_of(kKeep), Arithmetic::kPlain);
  }
  return result;
}

void test_stores(Storage storage, int exponent_bits) {
  const std::vector<Rounding> all = roundings(exponent_bits);
  std::vector<float> values;
  for (const Rounding& rounding : all) values.push_back(rounding.from);
  for (bool as_copy : {true, false}) {
    const std::vector<uint16_t> got = stored(values, storage, as_copy);
    for (size_t i = 0; i < all.size(); ++i) {
      const bool zero = (all[i].to & 0x7fff) == 0 && !as_copy;  // 0 + -0 is 0
      check(got[i] == all[i].to || (zero && (got[i] & 0x7fff) == 0),
            "%.9g (0x%08x) becomes %s 0x%04x; right is 0x%04x", static_cast<double>(all[i].from),
            bits_of(all[i].from), name(storage), got[i], all[i].to);
    }
  }
}

// Of any payload: where it is all ones, rounding up would carry into the sign.
void test_nan(Storage storage, int exponent_bits) {
  std::vector<float> values;
  for (uint32_t payload :
       {1u, 0x1fffu, 0x8000u, 0x3fffffu, 0x400000u, 0x7f8000u, 0x7fe000u, 0x7fffffu})
    for (uint32_t sign : {0u, 0x80000000u})
      values.push_back(from_bits(sign | 0x7f800000u | payload));
  for (bool as_copy : {true, false})
    for (uint16_t bits : stored(values, storage, as_copy))
      check(std::isnan(value_of(bits, exponent_bits)), "a NaN becomes %s 0x%04x", name(storage),
            bits);
}

}  // namespace

void test_conversions() {
  for (const std::string& backend : adam_backends()) {
    use_adam_backend(backend);
    for (auto [storage, exponent_bits] :
         {std::pair{Storage::kFloat16, 5}, std::pair{Storage::kBFloat16, 8}}) {
      test_loads(storage, exponent_bits);
      test_stores(storage, exponent_bits);
      test_nan(storage, exponent_bits);
    }
  }
}
