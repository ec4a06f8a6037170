// Tensors that are laid out differently: elements pair up logically, and nothing else is touched.
#include <algorithm>
#include <memory>

#include "support.h"

namespace {

constexpr Options kOptions = {"strided", 1e-2, 0.9,      0.99, 1e-8, 0.1, true, false,
                              true,      1,    INFINITY, true, {},   0.1, 1e-3};

// A stream with gaps: element (i, j) of 37 x 29 at i * strides[1] + j * strides[0].
constexpr int64_t kRows = 37;
constexpr int64_t kColumns = 29;

struct Layout {
  int64_t column;
  int64_t row;
};

constexpr Layout kLayouts[kAdamStreams] = {{1, kColumns},     {kRows, 1},         {2, 2 * kColumns},
                                           {1, kColumns + 3}, {3 * kRows + 1, 3}, {1, kColumns}};

int64_t span(const Layout& layout) {
  return (kColumns - 1) * layout.column + (kRows - 1) * layout.row + 1;
}

void test_types(Storage param, Storage grad, Storage state, int64_t begin, int64_t end) {
  const Storage storages[kAdamStreams] = {param, grad, state, state, state, Storage::kFloat16};
  std::unique_ptr<Guarded> memory[kAdamStreams];
  std::vector<float> dense[kAdamStreams];  // in the order of dims: columns first
  std::vector<char> before[kAdamStreams];
  char* data[kAdamStreams];
  Random random(static_cast<uint64_t>(begin + 7));
  for (int s = 0; s < kAdamStreams; ++s) {
    const size_t bytes = static_cast<size_t>(span(kLayouts[s]) * bytes_of(storages[s]));
    memory[s] = std::make_unique<Guarded>(bytes);
    data[s] = memory[s]->place(bytes, 0, s % 2 == 0);
    std::fill(data[s], data[s] + bytes, '\x11');
    for (int64_t i = 0; i < kRows; ++i)
      for (int64_t j = 0; j < kColumns; ++j) {
        const int64_t at = i * kLayouts[s].row + j * kLayouts[s].column;
        store(storages[s], data[s], at, random.value(-4, 1, s >= kExpAvgSq));
        dense[s].push_back(static_cast<float>(load(storages[s], data[s], at)));
      }
    before[s].assign(data[s], data[s] + bytes);
  }

  const auto tensors = [&](auto address) {
    AdamTensors t{address(kParam),    address(kGrad),        address(kExpAvg),
                  address(kExpAvgSq), address(kMaxExpAvgSq), address(kParamCopy)};
    return t;
  };
  AdamTensors t = tensors([&](int s) { return static_cast<void*>(data[s]); });
  t.param_type = param;
  t.grad_type = grad;
  t.state_type = state;
  t.copy_type = Storage::kFloat16;
  std::vector<AdamDim> dims{{kColumns, {}}, {kRows, {}}};
  for (int s = 0; s < kAdamStreams; ++s) {
    dims[0].strides[s] = kLayouts[s].column;
    dims[1].strides[s] = kLayouts[s].row;
  }
  adam_step(t, dims, begin, end, hyper_of(kOptions), Arithmetic::kPlain);

  // The same numbers, densely: float32 in between, rounded as they are stored.
  std::vector<uint16_t> copy(dense[kParam].size());
  AdamTensors d = tensors([&](int s) { return static_cast<void*>(dense[s].data()); });
  d.param_copy = copy.data();
  d.copy_type = Storage::kFloat16;
  adam_step(d, {}, begin, end, hyper_of(kOptions), Arithmetic::kPlain);

  for (int s = 0; s < kAdamStreams; ++s) {
    std::vector<char> want = before[s];
    for (int64_t k = begin; s != kGrad && k < end; ++k) {
      const int64_t at = k / kColumns * kLayouts[s].row + k % kColumns * kLayouts[s].column;
      if (s == kParamCopy) {
        std::memcpy(&want[2 * at], &copy[k], 2);
      } else {
        store(storages[s], want.data(), at, dense[s][k]);
      }
    }
    check(std::equal(want.begin(), want.end(), data[s]),
          "stream %d of %s params, %s gradients, %s states, [%lld, %lld)", s, name(param),
          name(grad), name(state), static_cast<long long>(begin), static_cast<long long>(end));
  }
}

// The end of a tensor of more than 2^32 elements. Only the pages of that end can be accessed at
// all.
class Far {
 public:
  static constexpr int64_t kCount = (int64_t{1} << 32) + 1000;
  static constexpr int64_t kBegin = kCount - 100;

  Far() {
    all_ = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
    if (all_ == MAP_FAILED) std::abort();
    const int64_t page = sysconf(_SC_PAGESIZE);
    const int64_t first = kBegin * int64_t{sizeof(float)} / page * page;
    if (mprotect(static_cast<char*>(all_) + first, kBytes - static_cast<size_t>(first),
                 PROT_READ | PROT_WRITE) != 0)
      std::abort();
  }
  ~Far() { munmap(all_, kBytes); }
  Far(const Far&) = delete;

  float* data() { return static_cast<float*>(all_); }
  float* end() { return data() + kBegin; }

 private:
  static constexpr size_t kBytes = static_cast<size_t>(kCount) * sizeof(float);
  void* all_;
};

void test_far_elements() {
  constexpr size_t kNear = static_cast<size_t>(Far::kCount - Far::kBegin);
  Far far[4];
  std::vector<float> near[4];
  Random random(77);
  for (int s = 0; s < 4; ++s)
    for (size_t i = 0; i < kNear; ++i) {
      near[s].push_back(random.value(-4, 1, s >= 2));
      far[s].end()[i] = near[s][i];
    }
  Options options = kOptions;
  options.amsgrad = options.copy = false;
  const AdamTensors t{far[0].data(), far[1].data(), far[2].data(), far[3].data()};
  const AdamTensors n{near[0].data(), near[1].data(), near[2].data(), near[3].data()};
  adam_step(t, {}, Far::kBegin, Far::kCount, hyper_of(options), Arithmetic::kPlain);
  adam_step(n, {}, 0, kNear, hyper_of(options), Arithmetic::kPlain);
  for (int s = 0; s < 4; ++s)
    check(std::equal(near[s].begin(), near[s].end(), far[s].end()), "elements beyond 2^32");
}

}  // namespace

void test_layouts() {
  constexpr int64_t kAll = kRows * kColumns;
  for (const std::string& backend : adam_backends()) {
    use_adam_backend(backend);
    test_far_elements();
    for (Storage param : kStorages)
      for (Storage grad : kStorages)
        for (Storage state : {Storage::kFloat32, param}) test_types(param, grad, state, 0, kAll);
    for (int64_t begin : {0, 1, 255, 256, 257, 1000})
      for (int64_t count : {0, 1, 29, 73})
        test_types(Storage::kFloat32, Storage::kBFloat16, Storage::kFloat32, begin, begin + count);
  }
}
