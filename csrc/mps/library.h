// Shader libraries: compiled from the source embedded in this binary, once a process, when first
// used; and the pipelines made from them.
#pragma once

#import <Metal/Metal.h>

#include <map>
#include <mutex>
#include <string>

#include "mps/ownership.h"

namespace mps_ds::mps {

class Library {
 public:
  // `family` names the .metal file; `source` is its flattened text and must outlive this object.
  Library(const char* family, const char* source) : family_(family), source_(source) {}

  // The pipeline of one kernel. Raises with Metal's log where it does not compile; there is no
  // fallback. Not to be called inside a block on PyTorch's queue.
  id<MTLComputePipelineState> pipeline(const std::string& kernel);

 private:
  id<MTLLibrary> compiled();

  const char* family_;
  const char* source_;
  std::mutex mutex_;
  Owned<id<MTLLibrary>> library_;
  std::map<std::string, Owned<id<MTLComputePipelineState>>> pipelines_;
};

// kernels/adam.metal
Library& adam_library();

}  // namespace mps_ds::mps
