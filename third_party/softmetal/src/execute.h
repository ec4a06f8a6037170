// Runs encoded dispatches.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernel_library.h"
#include "memory.h"

namespace softmetal {

// What sits at one index of an encoder's buffer table.
struct Binding {
  std::shared_ptr<Memory> memory;  // setBuffer:
  size_t offset = 0;
  std::vector<char> bytes;  // setBytes:, when not empty

  bool is_set() const { return memory || !bytes.empty(); }
  size_t available() const { return memory ? memory->length() - offset : bytes.size(); }
};

using BindingTable = std::array<Binding, SM_MAX_BUFFERS>;
using ThreadgroupLengths = std::array<unsigned, SM_MAX_BUFFERS>;  // bytes

// A kernel with the values of its function constants.
struct Function {
  const KernelLibrary* library;
  const sm_kernel* kernel;
  std::shared_ptr<const KernelLibrary::Constants> constants;
};

struct Dispatch {
  Function function;
  struct Argument {
    const sm_arg* declaration;
    Binding binding;
  };
  std::vector<Argument> buffers;
  ThreadgroupLengths threadgroup_lengths{};
  // useResource: so far in this encoder: the first `declared_count` of a list that still grows.
  std::shared_ptr<const std::vector<Access>> declared;
  size_t declared_count = 0;
  std::array<size_t, 3> grid, threadgroup;  // threads

  // Of an encoder's state, what the kernel reads.
  void take_arguments(const sm_kernel& kernel, const BindingTable& bindings,
                      const ThreadgroupLengths& lengths);
};

struct Failure {
  enum Kind { page_fault, invalid_resource, timeout, stack_overflow, out_of_memory, internal };
  Kind kind = internal;
  std::string text;
};

namespace tracing {
class Tracer;
}

// One at a time in the process, whatever queue it comes from; it uses all cores. With a tracer it
// runs in a tracing build, on one.
std::optional<Failure> execute(const Dispatch& dispatch, tracing::Tracer* tracer = nullptr);

}  // namespace softmetal
