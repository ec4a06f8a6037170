// Copies between host and device that the program has not waited for (non_blocking=True).
//
// A GPU may do them at any time until then. So what goes to the host is kept back until the program
// waits, and what comes from the host has to be there, unchanged, when it does.
#pragma once

#include <ATen/core/Tensor.h>

namespace softmps {

// MPS_DS_SOFT_NON_BLOCKING=0 has them done at the call.
bool copies_may_be_unfinished();

// `host` gets `values` at the next wait; until then it holds what no program should use.
void copy_to_host_later(const at::Tensor& host, const at::Tensor& values);

// `source` was copied to the device; its bytes are to stay as they are until the next wait.
// `temporary`: it is gone when the copy returns, whatever the program does.
void lend_to_device(const at::Tensor& source, bool temporary);

bool any_unfinished_copies();

}  // namespace softmps
