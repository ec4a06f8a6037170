// Words for what went wrong in a kernel.
#pragma once
#include "execute.h"
#include "faults.h"

namespace softmetal {

struct GroupPosition {
  unsigned x = 0, y = 0, z = 0;
};

// "buffer 'grad' (64 bytes, argument 'g' at index 1)"
std::string describe_buffer(const Memory& memory, const Dispatch& dispatch);

Failure describe_fault(const Fault& fault, const Dispatch& dispatch, GroupPosition group);
Failure describe_damage(const Location& where, const Dispatch& dispatch);
Failure describe_message(const std::string& message, const void* pc, const Dispatch& dispatch,
                         GroupPosition group);
// `pc`: what was running then, or null.
Failure describe_timeout(unsigned seconds, const void* pc, const Dispatch& dispatch,
                         GroupPosition group);
Failure describe_released(const Memory& memory, bool declared, const Dispatch& dispatch);

}  // namespace softmetal
