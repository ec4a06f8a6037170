// Shader libraries: compiled from the source embedded in this binary, once a process, when first
// used; and the pipelines made from them.
#pragma once

#import <Metal/Metal.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "mps/ownership.h"

namespace mps_ds::mps {

class Library {
 public:
  // `family` names the .metal file; `source` is its flattened text and must outlive this object.
  Library(const char* family, const char* source) : family_(family), source_(source) {}

  // The pipeline of one kernel, specialised: `constants[i]` is the uint function constant of index
  // i. Raises with Metal's log where it does not compile; there is no fallback. Not to be called
  // inside a block on PyTorch's queue.
  id<MTLComputePipelineState> pipeline(const std::string& kernel,
                                       const std::vector<uint32_t>& constants = {});

 private:
  using Key = std::pair<std::string, std::vector<uint32_t>>;

  id<MTLLibrary> compiled();
  Owned<id<MTLFunction>> function(const Key& key);
  Owned<id<MTLComputePipelineState>> make(const Key& key);

  const char* family_;
  const char* source_;
  std::mutex mutex_;
  Owned<id<MTLLibrary>> library_;
  std::map<Key, Owned<id<MTLComputePipelineState>>> pipelines_;
};

// kernels/<family>.metal. Never destroyed: the GPU may be at work when the process ends.
Library& adam_library();
Library& norm_library();
Library& scale_library();

}  // namespace mps_ds::mps
