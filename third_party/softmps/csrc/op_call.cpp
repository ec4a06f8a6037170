#include "op_call.h"

#include <memory>
#include <mutex>
#include <unordered_map>

#include "blocks.h"
#include "counters.h"
#include "metal.h"

namespace softmps {
namespace {

std::mutex mutex;
thread_local OpCall* current = nullptr;

std::map<std::string, std::unique_ptr<NamedOp>>& ops() {
  static auto* ops = new std::map<std::string, std::unique_ptr<NamedOp>>;  // leaked: used at exit
  return *ops;
}

NamedOp& locked_op(const std::string& name) {
  auto& op = ops()[name];
  if (!op) op = std::make_unique<NamedOp>(NamedOp{name, {}});
  return *op;
}

// Elements that a broadcast repeats count once.
uint64_t bytes_of(const at::Tensor& tensor) {
  if (tensor._is_zerotensor()) return 0;
  uint64_t elements = 1;
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) == 0 || tensor.stride(i) != 0) elements *= tensor.size(i);
  }
  return elements * tensor.itemsize();
}

}  // namespace

NamedOp& named_op(const c10::OperatorHandle& op) {
  static auto* known = new std::unordered_map<const c10::FunctionSchema*, NamedOp*>;
  std::lock_guard<std::mutex> lock(mutex);
  NamedOp*& found = (*known)[&op.schema()];
  if (!found) found = &locked_op(toString(op.operator_name()));
  return *found;
}

NamedOp& named_op(const char* name) {
  std::lock_guard<std::mutex> lock(mutex);
  return locked_op(name);
}

OpCall::OpCall(NamedOp& op)
    : op_(op), ticket_(metal::next_ticket()), outer_(std::exchange(current, this)) {
  counts_.calls = 1;
}

OpCall::~OpCall() {
  current = outer_;
  std::lock_guard<std::mutex> lock(mutex);
  OpCounts& total = op_.counts;
  total.calls += counts_.calls;
  total.bytes_in += counts_.bytes_in;
  total.bytes_out += counts_.bytes_out;
  total.host_reads += counts_.host_reads;
  total.waits += counts_.waits;
}

void OpCall::reads(const at::Tensor& tensor) {
  counts_.bytes_in += bytes_of(tensor);
  use(tensor, /*written=*/false);
}

void OpCall::writes(const at::Tensor& tensor) {
  counts_.bytes_out += bytes_of(tensor);
  use(tensor, /*written=*/true);
}

void OpCall::use(const at::Tensor& tensor, bool written) {
  if (!tensor.is_mps() || tensor._is_zerotensor()) return;
  if (const Block* block = block_of(tensor.storage())) {
    metal::touched(block->buffer, written, op_.name.c_str(), ticket_);
  }
}

void count_wait() {
  ++counters().waits;
  if (current) ++current->counts_.waits;
}

void count_host_read() {
  ++counters().host_reads;
  if (current) ++current->counts_.host_reads;
}

std::map<std::string, OpCounts> op_counts() {
  std::lock_guard<std::mutex> lock(mutex);
  std::map<std::string, OpCounts> counts;
  for (const auto& [name, op] : ops()) {
    if (op->counts.calls) counts[name] = op->counts;
  }
  return counts;
}

void reset_op_counts() {
  std::lock_guard<std::mutex> lock(mutex);
  for (auto& [name, op] : ops()) op->counts = {};
}

}  // namespace softmps
