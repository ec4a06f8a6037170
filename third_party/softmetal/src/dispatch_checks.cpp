#include "dispatch_checks.h"

#include <algorithm>
#include <cstdint>

namespace softmetal {
namespace {

std::string text(const std::array<size_t, 3>& size) {
  return "(" + std::to_string(size[0]) + ", " + std::to_string(size[1]) + ", " +
         std::to_string(size[2]) + ")";
}

std::string problem_with_buffer(const sm_arg& argument, const Binding& binding) {
  if (!binding.is_set()) return argument.optional ? "" : "has no buffer or bytes set";
  const size_t needed = argument.is_pointer ? 1 : argument.elem_size;
  if (binding.available() < needed) {
    return "needs " + std::to_string(needed) + " bytes, " + std::to_string(binding.available()) +
           " are set";
  }
  if (!binding.memory && !argument.is_const) {
    return "is written by the kernel, but was set with setBytes:";
  }
  // Metal: device pointers by their type, constant ones by at least 4.
  const size_t alignment = std::max<size_t>(argument.elem_align, argument.is_constant ? 4 : 1);
  if (binding.memory && binding.offset % alignment) {
    return "is bound at offset " + std::to_string(binding.offset) +
           ", which is not a multiple of " + std::to_string(alignment);
  }
  return "";
}

}  // namespace

std::string problem_with_size(const std::array<size_t, 3>& grid, const std::array<size_t, 3>& group,
                              const Limits& limits) {
  size_t threads = 1;
  for (int i = 0; i < 3; ++i) {
    if (!group[i]) return "threadsPerThreadgroup " + text(group) + " has a dimension of 0";
    if (!grid[i]) {
      return "the grid " + text(grid) + " has a dimension of 0: leave the dispatch out";
    }
    if (grid[i] > UINT32_MAX || group[i] > SM_MAX_THREADS) {
      return "grid " + text(grid) + " or threadsPerThreadgroup " + text(group) + " is too large";
    }
    threads *= group[i];
  }
  if (threads > limits.max_threads) {
    return "threadsPerThreadgroup " + text(group) + " has " + std::to_string(threads) +
           " threads, maxTotalThreadsPerThreadgroup of the pipeline is " +
           std::to_string(limits.max_threads);
  }
  if (limits.whole_simdgroups && threads % SM_SIMD) {
    return std::to_string(threads) +
           " threads per threadgroup are not a multiple of threadExecutionWidth, which "
           "threadGroupSizeIsMultipleOfThreadExecutionWidth promised";
  }
  return "";
}

std::string problem_with_arguments(const sm_kernel& kernel, const BindingTable& bindings,
                                   const ThreadgroupLengths& lengths) {
  size_t threadgroup_bytes = kernel.static_threadgroup_memory;
  for (int i = 0; i < kernel.nargs; ++i) {
    const sm_arg& argument = kernel.args[i];
    const std::string name = "argument '" + std::string(argument.name) + "' at ";
    const std::string index = std::to_string(argument.index);
    if (argument.kind == SM_BUFFER) {
      const std::string problem = problem_with_buffer(argument, bindings[argument.index]);
      if (!problem.empty()) return name + "index " + index + " " + problem;
    } else if (argument.kind == SM_THREADGROUP_MEM) {
      if (!lengths[argument.index]) {
        return name + "threadgroup index " + index + " has no setThreadgroupMemoryLength:";
      }
      threadgroup_bytes += lengths[argument.index];
    }
  }
  if (threadgroup_bytes > SM_MAX_THREADGROUP_MEMORY) {
    return std::to_string(threadgroup_bytes) +
           " bytes of threadgroup memory are more than maxThreadgroupMemoryLength, " +
           std::to_string(SM_MAX_THREADGROUP_MEMORY);
  }
  return "";
}

}  // namespace softmetal
