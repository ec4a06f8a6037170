// What can be wrong with a dispatch when it is encoded. Each function returns "" or the problem.
#pragma once
#include <array>
#include <string>

#include "execute.h"

namespace softmetal {

struct Limits {
  unsigned max_threads;   // maxTotalThreadsPerThreadgroup
  bool whole_simdgroups;  // threadGroupSizeIsMultipleOfThreadExecutionWidth
};

std::string problem_with_size(const std::array<size_t, 3>& grid, const std::array<size_t, 3>& group,
                              const Limits& limits);
std::string problem_with_arguments(const sm_kernel& kernel, const BindingTable& bindings,
                                   const ThreadgroupLengths& lengths);

}  // namespace softmetal
