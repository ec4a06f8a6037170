// One call of an operator on the device: what is counted of it, and which storages it uses, which
// the host may not touch before the program has waited (softmetal's early accesses).
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <map>
#include <string>

namespace softmps {

struct OpCounts {
  uint64_t calls = 0;
  uint64_t bytes_in = 0;   // of the elements that it reads,
  uint64_t bytes_out = 0;  // and that it writes
  uint64_t host_reads = 0;
  uint64_t waits = 0;
};

struct NamedOp {  // lives for ever
  std::string name;
  OpCounts counts;
};

NamedOp& named_op(const c10::OperatorHandle& op);
NamedOp& named_op(const char* name);

class OpCall {
 public:
  explicit OpCall(NamedOp& op);
  ~OpCall();
  OpCall(const OpCall&) = delete;
  OpCall& operator=(const OpCall&) = delete;

  // Tensors on either device: bytes count, and storages on mps are in use until the program waits.
  void reads(const at::Tensor& tensor);
  void writes(const at::Tensor& tensor);

 private:
  friend void count_wait();
  friend void count_host_read();
  void use(const at::Tensor& tensor, bool written);

  NamedOp& op_;
  OpCounts counts_;
  uint64_t ticket_;
  OpCall* outer_;
};

// By name, without those that were not called since the last reset.
std::map<std::string, OpCounts> op_counts();
void reset_op_counts();

}  // namespace softmps
