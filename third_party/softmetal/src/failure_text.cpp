#include "failure_text.h"

#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "arena.h"
#include "symbolize.h"
#include "workers.h"

namespace softmetal {
namespace {

std::string in_kernel(const Dispatch& dispatch, const std::string& text) {
  return std::string("kernel '") + dispatch.function.kernel->name + "': " + text;
}

std::string at(const void* pc, GroupPosition group) {
  std::string text = ", in threadgroup (" + std::to_string(group.x) + ", " +
                     std::to_string(group.y) + ", " + std::to_string(group.z) + ")";
  const std::string line = source_line(pc);
  return line.empty() ? text : text + ", at " + line;
}

// "buffer 'grad' (64 bytes, argument 'g' at index 1)"
std::string name(const Memory* memory, const std::string& label, size_t length,
                 const Dispatch& dispatch) {
  std::string text = label.empty() ? "an unlabelled buffer (" : "buffer '" + label + "' (";
  text += std::to_string(length) + " bytes";
  for (const Dispatch::Argument& a : dispatch.buffers) {
    if (a.binding.memory.get() != memory) continue;
    text += std::string(", argument '") + a.declaration->name + "' at index " +
            std::to_string(a.declaration->index);
    if (a.binding.offset) text += " bound at offset " + std::to_string(a.binding.offset);
  }
  const auto end = dispatch.declared->begin() + dispatch.declared_count;
  if (std::any_of(dispatch.declared->begin(), end,
                  [&](const Access& a) { return a.memory.get() == memory; })) {
    text += ", declared with useResource:";
  }
  return text + ")";
}

std::string hexadecimal(const void* address) {
  char text[32];
  snprintf(text, sizeof text, "%p", address);
  return text;
}

std::string describe_access(const Fault& fault, const Location& where, const Dispatch& dispatch) {
  const std::string access = fault.write ? "write" : "read";
  const std::string offset = "byte offset " + std::to_string(where.offset);
  const std::string buffer = name(where.memory, where.label, where.length, dispatch);
  if (where.where == Location::nowhere) {
    if (reinterpret_cast<uintptr_t>(fault.address) < page_size()) {
      // A non-canonical address is reported as 0 by the kernel.
      return fault.code == SI_KERNEL
                 ? access + " through a wild pointer (not an address)"
                 : access + " through a null pointer (" + hexadecimal(fault.address) + ")";
    }
    return access + " at " + hexadecimal(fault.address) + ", which is in no buffer";
  }
  if (where.where == Location::unowned) {
    return access + " at " + hexadecimal(fault.address) +
           ", which is in no living buffer: a released one, or far out of bounds";
  }
  if (where.released) {
    return access + " at " + offset + " of " + buffer +
           ", which was released before the command buffer completed (useResource: does not "
           "retain: hold the buffer in a completed handler)";
  }
  if (where.where == Location::out_of_bounds) {
    return "out-of-bounds " + access + " at " + offset + " of " + buffer;
  }
  if (where.cpu_view) {
    return access + " at " + offset + " of " + buffer +
           " through its CPU address (contents); kernels need gpuAddress";
  }
  if (!where.readable) {
    return access + " at " + offset + " of " + buffer +
           ", which is neither bound nor declared with useResource:usage: in this encoder (or far "
           "out of bounds of another buffer)";
  }
  return "write at " + offset + " of " + buffer + ", which is bound or declared for reading only";
}

// Below a fiber's stack; or, of any stack, just where the next frame would be.
bool overflowed_stack(const Fault& fault) {
  const char* address = static_cast<const char*>(fault.address);
  const char* stack = static_cast<const char*>(fault.stack);
  return in_stack_guard(address) ||
         (address > stack - page_size() && address < stack + page_size());
}

}  // namespace

std::string describe_buffer(const Memory& memory, const Dispatch& dispatch) {
  return name(&memory, memory.label(), memory.length(), dispatch);
}

Failure describe_fault(const Fault& fault, const Dispatch& dispatch, GroupPosition group) {
  const auto failure = [&](Failure::Kind kind, const std::string& text) {
    return Failure{kind, in_kernel(dispatch, text + at(fault.pc, group))};
  };
  switch (fault.signal) {
    case SIGILL:
    case SIGTRAP:
      return failure(
          Failure::internal,
          "undefined behaviour: an index out of bounds of a thread or threadgroup array, "
          "a misaligned address, an integer division by zero or a shift by too many bits");
    case SIGFPE:
      return failure(Failure::internal, "integer division by zero, which is undefined on a GPU");
  }
  if (overflowed_stack(fault)) {
    return failure(Failure::stack_overflow, "a thread used more private memory than it has (" +
                                                std::to_string(SM_STACK_BYTES / 1024) +
                                                " KiB where the kernel has barriers)");
  }
  if (fault.signal == SIGBUS) {
    return failure(Failure::out_of_memory, "the system has no memory left for a buffer");
  }
  // The bytes of a bytesNoCopy buffer are the process's own and never fault.
  return failure(Failure::page_fault, describe_access(fault, locate(fault.address), dispatch));
}

Failure describe_damage(const Location& where, const Dispatch& dispatch) {
  return {Failure::page_fault,
          in_kernel(dispatch, "out-of-bounds write at byte offset " + std::to_string(where.offset) +
                                  " of " + name(where.memory, where.label, where.length, dispatch) +
                                  ", seen after the dispatch")};
}

Failure describe_message(const std::string& message, const void* pc, const Dispatch& dispatch,
                         GroupPosition group) {
  return {Failure::internal, in_kernel(dispatch, message + at(pc, group))};
}

Failure describe_timeout(unsigned seconds, const void* pc, const Dispatch& dispatch,
                         GroupPosition group) {
  return {Failure::timeout,
          in_kernel(dispatch, "no threadgroup ended for " + std::to_string(seconds) +
                                  " seconds (SOFTMETAL_TIMEOUT), the dispatch was stopped" +
                                  (pc ? at(pc, group) : ""))};
}

Failure describe_released(const Memory& memory, bool declared, const Dispatch& dispatch) {
  const std::string how =
      declared ? " (useResource: makes it resident but does not retain: hold the buffer in a "
                 "completed handler)"
               : " (this command buffer was made with commandBufferWithUnretainedReferences)";
  return {Failure::invalid_resource,
          in_kernel(dispatch, name(&memory, memory.label(), memory.length(), dispatch) +
                                  " was released before the command buffer completed" + how)};
}

}  // namespace softmetal
