// Steps over dense tensors: every type, size and backend, between guard pages.
#include <algorithm>
#include <memory>

#include "mps/kernels/adam_math.h"
#include "reference.h"

namespace {

constexpr double kNone = INFINITY;

constexpr Options kOptions[] = {
    {"adamw", 1e-2, 0.9, 0.999, 1e-8, 0.1, true, false, false, 1, kNone, false, {}, 0.1, 1e-3},
    {"adam", 1e-3, 0.95, 0.98, 1e-6, 0, true, false, false, 1, kNone, false, {}, 1, 1},
    {"l2, all extras, bfloat16 copy", 1e-2, 0.9, 0.99, 1e-8, 0.03, false, true, true, 1024, 1e-3,
     true, Storage::kBFloat16, 0.271, 0.0297},
    {"negative decay, float16 copy", 1e-1, 0, 0, 1e-3, -0.1, true, false, false, 3, kNone, true,
     Storage::kFloat16, 1, 1},
};

struct Types {
  Storage param, grad, state;
};

// The streams of one step in guarded memory.
class Case {
 public:
  explicit Case(int64_t capacity) {
    for (auto& memory : memory_) memory = std::make_unique<Guarded>(4 * (capacity + 16));
  }

  // Streams at distinct, odd distances (in elements) from the guards.
  void place(const Types& types, const Options& options, int64_t count, size_t gap, bool at_end) {
    t_.param_type = types.param;
    t_.grad_type = types.grad;
    t_.state_type = types.state;
    t_.copy_type = options.copy_type;
    const auto at = [&](int stream, Storage storage) -> void* {
      const size_t item = static_cast<size_t>(bytes_of(storage));
      const size_t distance = gap == 0 ? 0 : gap + 2 * static_cast<size_t>(stream);
      return memory_[stream]->place(item * static_cast<size_t>(count), item * distance, at_end);
    };
    t_.param = at(kParam, types.param);
    t_.grad = at(kGrad, types.grad);
    t_.exp_avg = at(kExpAvg, types.state);
    t_.exp_avg_sq = at(kExpAvgSq, types.state);
    t_.max_exp_avg_sq = options.amsgrad ? at(kMaxExpAvgSq, types.state) : nullptr;
    t_.param_copy = options.copy ? at(kParamCopy, options.copy_type) : nullptr;
  }

  void fill(int64_t count, uint64_t seed) {
    Random random(seed);
    before_.resize(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      store(t_.param_type, t_.param, i, i % 7 == 3 ? 0.0f : random.value(-6, 3));
      store(t_.grad_type, const_cast<void*>(t_.grad), i, random.value(-9, 2));
      store(t_.state_type, t_.exp_avg, i, random.value(-9, 0));
      store(t_.state_type, t_.exp_avg_sq, i, random.value(-9, 1, true));
      if (t_.max_exp_avg_sq) store(t_.state_type, t_.max_exp_avg_sq, i, random.value(-9, 1, true));
      before_[static_cast<size_t>(i)] = {
          load(t_.param_type, t_.param, i), load(t_.grad_type, t_.grad, i),
          load(t_.state_type, t_.exp_avg, i), load(t_.state_type, t_.exp_avg_sq, i),
          t_.max_exp_avg_sq ? load(t_.state_type, t_.max_exp_avg_sq, i) : 0};
    }
  }

  void step(int64_t begin, int64_t end, const AdamHyper& hyper, Arithmetic arithmetic) {
    adam_step(t_, {}, begin, end, hyper, arithmetic);
  }

  // What the step has stored, in the order of the elements.
  std::vector<double> results(int64_t count) const {
    std::vector<double> all;
    for (int64_t i = 0; i < count; ++i) {
      all.push_back(load(t_.param_type, t_.param, i));
      all.push_back(load(t_.state_type, t_.exp_avg, i));
      all.push_back(load(t_.state_type, t_.exp_avg_sq, i));
      if (t_.max_exp_avg_sq) all.push_back(load(t_.state_type, t_.max_exp_avg_sq, i));
      if (t_.param_copy) all.push_back(load(t_.copy_type, t_.param_copy, i));
    }
    return all;
  }

  void check_against_double(int64_t count, const Options& options) const {
    for (int64_t i = 0; i < count; ++i) {
      const BoundedStep want = reference_step(before_[static_cast<size_t>(i)], options);
      check_value(load(t_.param_type, t_.param, i), want.param, t_.param_type, "param", i);
      check_value(load(t_.state_type, t_.exp_avg, i), want.exp_avg, t_.state_type, "exp_avg", i);
      check_value(load(t_.state_type, t_.exp_avg_sq, i), want.exp_avg_sq, t_.state_type,
                  "exp_avg_sq", i);
      if (t_.max_exp_avg_sq)
        check_value(load(t_.state_type, t_.max_exp_avg_sq, i), want.max_exp_avg_sq, t_.state_type,
                    "max_exp_avg_sq", i);
      if (t_.param_copy)
        check_value(load(t_.copy_type, t_.param_copy, i), want.param, t_.copy_type, "copy", i);
    }
  }

  AdamTensors& tensors() { return t_; }

 private:
  static void check_value(double got, const Bounded& want, Storage storage, const char* what,
                          int64_t i) {
    check(is_rounded(got, want, storage), "%s[%lld] (%s) is %.9g, in double %.17g, allowed %.3g",
          what, static_cast<long long>(i), name(storage), got, want.value, want.error);
  }

  std::unique_ptr<Guarded> memory_[kAdamStreams];
  AdamTensors t_{};
  std::vector<Element> before_;
};

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) ||
         __builtin_bit_cast(uint64_t, a) == __builtin_bit_cast(uint64_t, b);
}

void check_same(const std::vector<double>& got, const std::vector<double>& want, const char* what,
                int64_t count) {
  bool equal = got.size() == want.size();
  for (size_t i = 0; equal && i < got.size(); ++i) equal = same(got[i], want[i]);
  check(equal, "%s, %lld elements: not the scalar backend's bits", what,
        static_cast<long long>(count));
}

struct Placement {
  size_t gap;
  bool at_end;
};

constexpr Placement kPlacements[] = {{0, true}, {0, false}, {1, true}, {3, false}};

// The scalar backend against double; the others against it, bit for bit.
void test_one(Case& memory, const Types& types, const Options& options, int64_t count) {
  const AdamHyper hyper = hyper_of(options);
  const uint64_t seed = static_cast<uint64_t>(count) * 31 + static_cast<uint64_t>(types.param);
  std::vector<double> want;
  size_t placement = static_cast<size_t>(count);
  for (const std::string& backend : {std::string("scalar"), adam_backends()[0],
                                     adam_backends()[adam_backends().size() > 2 ? 1 : 0]}) {
    use_adam_backend(backend);
    const Placement& place = kPlacements[placement++ % std::size(kPlacements)];
    memory.place(types, options, count, place.gap, place.at_end);
    memory.fill(count, seed);
    memory.step(0, count, hyper, Arithmetic::kPlain);
    if (want.empty()) {
      memory.check_against_double(count, options);
      want = memory.results(count);
      for (double x : want) digest.add(x);
    } else {
      check_same(memory.results(count), want, options.name, count);
    }
  }
}

void test_all_types(Case& memory, int64_t count) {
  for (Storage param : kStorages)
    for (Storage grad : kStorages)
      for (Storage state : {Storage::kFloat32, param})
        test_one(memory, {param, grad, state},
                 kOptions[static_cast<size_t>(count + static_cast<int>(param)) % 4], count);
}

// Pieces of a tensor make up the whole, wherever it is cut.
void test_pieces(Case& memory) {
  constexpr int64_t kCount = 1000;
  for (const Options& options : kOptions) {
    const Types types{Storage::kFloat32, Storage::kBFloat16, Storage::kFloat32};
    memory.place(types, options, kCount, 0, true);
    memory.fill(kCount, 5);
    memory.step(0, kCount, hyper_of(options), Arithmetic::kPlain);
    const std::vector<double> whole = memory.results(kCount);
    memory.fill(kCount, 5);
    Random random(17);
    for (int64_t begin = 0; begin < kCount;) {
      const int64_t end = std::min<int64_t>(kCount, begin + random.bits() % 90);
      memory.step(begin, end, hyper_of(options), Arithmetic::kPlain);
      begin = end;
    }
    check_same(memory.results(kCount), whole, "pieces", kCount);
  }
}

// An element that is not finite spoils itself only.
void test_non_finite(Case& memory) {
  const Types types{Storage::kFloat32, Storage::kFloat32, Storage::kFloat32};
  const float bad[] = {NAN, INFINITY, -INFINITY};
  for (int64_t count : {1, 5, 6, 7, 33, 100}) {
    for (int k = 0; k < 3; ++k) {
      memory.place(types, kOptions[0], count, 0, true);
      memory.fill(count, 9);
      memory.step(0, count, hyper_of(kOptions[0]), Arithmetic::kPlain);
      std::vector<double> want = memory.results(count);
      memory.fill(count, 9);
      const int64_t at = k == 0 ? count - 1 : count / 2;
      static_cast<float*>(const_cast<void*>(memory.tensors().grad))[at] = bad[k];
      memory.step(0, count, hyper_of(kOptions[0]), Arithmetic::kPlain);
      const std::vector<double> got = memory.results(count);
      check(std::isnan(got[3 * at]), "a param is %g, its gradient %g", got[3 * at],
            static_cast<double>(bad[k]));
      check(!std::isfinite(got[3 * at + 1]) && !std::isfinite(got[3 * at + 2]),
            "a gradient of %g left its means finite", static_cast<double>(bad[k]));
      for (int s = 0; s < 3; ++s) want[3 * at + s] = got[3 * at + s];
      check_same(got, want, "around an element that is not finite", count);
    }
  }
}

// Pairs of floats: the same bits as one element at a time.
void test_pairs(Case& memory, int64_t count) {
  for (const Options& options : kOptions) {
    const Types types{Storage::kFloat32, Storage::kFloat32, Storage::kFloat32};
    const AdamHyper hyper = hyper_of(options);
    memory.place(types, options, count, 0, true);
    memory.fill(count, 3);
    std::vector<double> want;
    const AdamTensors& t = memory.tensors();
    for (int64_t i = 0; i < count; ++i) {
      const auto at = [i](const void* data) { return static_cast<const float*>(data)[i]; };
      const AdamElement x = adam_element({at(t.param), at(t.exp_avg), at(t.exp_avg_sq),
                                          options.amsgrad ? at(t.max_exp_avg_sq) : 0},
                                         at(t.grad), hyper, options.amsgrad);
      want.insert(want.end(), {x.param, x.exp_avg, x.exp_avg_sq});
      if (options.amsgrad) want.push_back(x.max_exp_avg_sq);
      if (options.copy) {
        uint16_t copy;
        store(options.copy_type, &copy, 0, x.param);
        want.push_back(load(options.copy_type, &copy, 0));
      }
    }
    memory.step(0, count, hyper, Arithmetic::kPairs);
    check_same(memory.results(count), want, "pairs", count);
  }
}

// Undoing a step gives back what was before, as far as roundings allow: float32 states hold 24
// bits, and a small gradient next to large means is lost to some of them.
void test_rollback(Case& memory) {
  constexpr int64_t kCount = 200;
  for (const Options& options : {kOptions[0], kOptions[1]}) {
    const Types types{Storage::kFloat32, Storage::kFloat32, Storage::kFloat32};
    memory.place(types, options, kCount, 0, true);
    memory.fill(kCount, 21);
    const std::vector<double> before = memory.results(kCount);
    memory.step(0, kCount, hyper_of(options), Arithmetic::kPlain);
    const std::vector<double> after = memory.results(kCount);
    adam_rollback(memory.tensors(), 0, kCount, hyper_of(options));
    const std::vector<double> got = memory.results(kCount);
    for (int64_t i = 0; i < kCount; ++i) {
      const double* b = &before[3 * i];
      const double* a = &after[3 * i];
      const double* g = &got[3 * i];
      const double update = std::fabs(a[0] - b[0]);
      // Each stored value was off by a few roundings of the largest term; these are divided by the
      // factors that a step multiplies with (at least 0.9).
      check(std::fabs(g[0] - b[0]) <= 16 * 0x1p-24 * (std::fabs(b[0]) + update),
            "rollback of param");
      const double grad = load(Storage::kFloat32, memory.tensors().grad, i);
      check(std::fabs(g[1] - b[1]) <= 8 * 0x1p-24 * (std::fabs(b[1]) + std::fabs(grad)),
            "rollback of exp_avg: %.9g, was %.9g", g[1], b[1]);
      check(std::fabs(g[2] - b[2]) <= 8 * 0x1p-24 * (b[2] + grad * grad),
            "rollback of exp_avg_sq: %.9g, was %.9g", g[2], b[2]);
    }
  }
}

}  // namespace

void test_steps() {
  Case small(1100);
  for (int64_t count = 0; count <= 130; ++count) test_all_types(small, count);
  for (int64_t count : {1023, 1024, 1025}) test_all_types(small, count);
  {
    constexpr int64_t kLarge = 1 << 20;
    Case large(kLarge);
    for (size_t k = 0; k < std::size(kOptions); ++k)
      test_one(large, {kStorages[k % 3], kStorages[(k + 1) % 3], kStorages[k % 2 ? 0 : k % 3]},
               kOptions[k], kLarge);
  }
  for (const std::string& backend : adam_backends()) {
    use_adam_backend(backend);
    test_pieces(small);
    test_non_finite(small);
    for (int64_t count : {0, 1, 15, 16, 17, 129, 1025}) test_pairs(small, count);
  }
  test_rollback(small);
}
