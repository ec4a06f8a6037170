#include "cpu_adam/adam_core.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "cpu_adam/backend.h"

namespace mps_ds::cpu_adam {
namespace {

const std::vector<const Backend*>& usable_backends() {
  static const std::vector<const Backend*> usable = [] {
    std::vector<const Backend*> found;
    for (const Backend* backend : {
#if defined(__x86_64__)
             &kAvx512, &kAvx2,
#elif defined(__aarch64__)
             &kNeon,
#endif
             &kScalar})
      if (backend->usable()) found.push_back(backend);
    return found;
  }();
  return usable;
}

const Backend* find_backend(const char* name) {
  for (const Backend* backend : usable_backends())
    if (std::strcmp(backend->name, name) == 0) return backend;
  return nullptr;
}

const Backend*& chosen() {
  static const Backend* backend = [] {
    const char* name = std::getenv("MPS_DS_CPU_ADAM");
    const Backend* named = name ? find_backend(name) : nullptr;
    return named ? named : usable_backends().front();
  }();
  return backend;
}

// Elements that lie apart are gathered, stepped as dense ones, and scattered.
constexpr int64_t kTile = 256;

struct Tile {
  alignas(64) char values[kAdamStreams][kTile * sizeof(float)];
  int64_t offsets[kAdamStreams][kTile];  // in bytes, from element 0 of the tensor
};

struct Stream {
  char* data;     // null: absent
  int64_t bytes;  // of an element
};

using Streams = std::array<Stream, kAdamStreams>;

Streams streams_of(const AdamTensors& t) {
  const int64_t state = bytes_of(t.state_type);
  const auto at = [](const void* data) { return static_cast<char*>(const_cast<void*>(data)); };
  return {{{at(t.param), bytes_of(t.param_type)},
           {at(t.grad), bytes_of(t.grad_type)},
           {at(t.exp_avg), state},
           {at(t.exp_avg_sq), state},
           {at(t.max_exp_avg_sq), state},
           {at(t.param_copy), bytes_of(t.copy_type)}}};
}

void find_offsets(Tile& tile, const Streams& streams, const std::vector<AdamDim>& dims,
                  int64_t begin, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    std::array<int64_t, kAdamStreams> offset{};
    int64_t rest = begin + i;
    for (const AdamDim& dim : dims) {
      const int64_t index = rest % dim.size;
      rest /= dim.size;
      for (int s = 0; s < kAdamStreams; ++s) offset[s] += index * dim.strides[s];
    }
    for (int s = 0; s < kAdamStreams; ++s) tile.offsets[s][i] = offset[s] * streams[s].bytes;
  }
}

template <class T>
void move_all(char* tile, char* data, const int64_t* offsets, int64_t count, bool gather) {
  for (int64_t i = 0; i < count; ++i) {
    char* in_tile = tile + i * static_cast<int64_t>(sizeof(T));
    char* in_tensor = data + offsets[i];
    std::memcpy(gather ? in_tile : in_tensor, gather ? in_tensor : in_tile, sizeof(T));
  }
}

void move_stream(Tile& tile, const Streams& streams, int s, int64_t count, bool gather) {
  if (!streams[s].data) return;
  const auto move = streams[s].bytes == 4 ? move_all<uint32_t> : move_all<uint16_t>;
  move(tile.values[s], streams[s].data, tile.offsets[s], count, gather);
}

AdamTensors tensors_of(Tile& tile, AdamTensors tensors) {
  tensors.param = tile.values[kParam];
  tensors.grad = tile.values[kGrad];
  tensors.exp_avg = tile.values[kExpAvg];
  tensors.exp_avg_sq = tile.values[kExpAvgSq];
  if (tensors.max_exp_avg_sq) tensors.max_exp_avg_sq = tile.values[kMaxExpAvgSq];
  if (tensors.param_copy) tensors.param_copy = tile.values[kParamCopy];
  return tensors;
}

void step_strided(const AdamTensors& tensors, const std::vector<AdamDim>& dims, int64_t begin,
                  int64_t end, const AdamHyper& hyper, Arithmetic arithmetic) {
  Tile tile;
  const Streams streams = streams_of(tensors);
  const AdamTensors gathered = tensors_of(tile, tensors);
  for (; begin < end; begin += kTile) {
    const int64_t count = std::min(kTile, end - begin);
    find_offsets(tile, streams, dims, begin, count);
    for (int s : {kParam, kGrad, kExpAvg, kExpAvgSq, kMaxExpAvgSq})
      move_stream(tile, streams, s, count, true);
    chosen()->step(gathered, 0, count, hyper, arithmetic);
    for (int s : {kParam, kExpAvg, kExpAvgSq, kMaxExpAvgSq, kParamCopy})
      move_stream(tile, streams, s, count, false);
  }
}

}  // namespace

void adam_step(const AdamTensors& tensors, const std::vector<AdamDim>& dims, int64_t begin,
               int64_t end, const AdamHyper& hyper, Arithmetic arithmetic) {
  if (dims.empty()) {
    chosen()->step(tensors, begin, end, hyper, arithmetic);
  } else {
    step_strided(tensors, dims, begin, end, hyper, arithmetic);
  }
}

std::vector<std::string> adam_backends() {
  std::vector<std::string> names;
  for (const Backend* backend : usable_backends()) names.emplace_back(backend->name);
  return names;
}

std::string adam_backend() {
  return chosen()->name;
}

bool use_adam_backend(const std::string& name) {
  const Backend* backend = find_backend(name.c_str());
  if (backend) chosen() = backend;
  return backend != nullptr;
}

}  // namespace mps_ds::cpu_adam
