#include "fallback.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "blocks.h"
#include "bridge.h"
#include "counters.h"
#include "device_index.h"
#include "generator.h"
#include "metal.h"
#include "missing_on_mac.h"
#include "op_call.h"

namespace softmps {
namespace {

using at::Tensor;
using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::IValue;

// A Mac reads the result, or its size, back to the host in these.
bool reads_back(const std::string& name) {
  static const std::unordered_set<std::string> names = {
      "aten::equal",
      "aten::nonzero",
      "aten::masked_select",
      "aten::_unique2",
      "aten::unique_dim",
      "aten::unique_consecutive",
      "aten::unique_dim_consecutive",
      "aten::repeat_interleave",
      "aten::bincount",
  };
  return names.count(name) != 0;
}

// In-place operators that do not look at what was there.
bool overwrites_self(const std::string& name) {
  static const std::unordered_set<std::string> names = {
      "aten::fill_",       "aten::zero_",      "aten::normal_", "aten::uniform_",
      "aten::random_",     "aten::bernoulli_", "aten::cauchy_", "aten::exponential_",
      "aten::log_normal_", "aten::geometric_", "aten::eye_",    "aten::copy_",
  };
  return names.count(name) != 0;
}

// Operators that accept CPU tensors with dimensions beside MPS ones: index tensors may be on the
// CPU.
bool accepts_cpu_indices(const std::string& name) {
  return name == "aten::index" || name == "aten::index_put_" || name == "aten::_index_put_impl_";
}

// A mask becomes a list of indices, whose length the host has to know.
bool indexes_with_mask(const torch::jit::Stack& stack, size_t arguments) {
  for (size_t i = stack.size() - arguments; i < stack.size(); ++i) {
    if (!stack[i].isOptionalTensorList()) continue;
    for (const IValue& index : stack[i].toListRef()) {
      if (index.isNone()) continue;
      const auto type = index.toTensor().scalar_type();
      if (type == at::kBool || type == at::kByte) return true;
    }
  }
  return false;
}

IValue map_tensors(const IValue& value, const std::function<Tensor(const Tensor&)>& map) {
  if (value.isTensor()) return map(value.toTensor());
  if (value.isTensorList()) {
    c10::List<Tensor> mapped;
    mapped.reserve(value.toListRef().size());
    for (const IValue& element : value.toListRef()) mapped.push_back(map(element.toTensor()));
    return mapped;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<Tensor>> mapped;
    for (const IValue& element : value.toListRef()) {
      mapped.push_back(element.isNone() ? std::optional<Tensor>()
                                        : std::optional<Tensor>(map(element.toTensor())));
    }
    return mapped;
  }
  return value;
}

bool is_optional_generator(const c10::Argument& argument) {
  auto optional = argument.type()->cast<c10::OptionalType>();
  return optional && optional->getElementType()->kind() == c10::TypeKind::GeneratorType;
}

// Replaces what is on the device by its view on the host, argument by argument.
class Arguments {
 public:
  Arguments(const c10::FunctionSchema& schema, torch::jit::Stack& stack, Bridge& bridge,
            OpCall& call)
      : schema_(schema), stack_(stack), bridge_(bridge), call_(call) {}

  void move_to_host() {
    const auto& arguments = schema_.arguments();
    const size_t first = stack_.size() - arguments.size();
    for (size_t i = 0; i < arguments.size(); ++i) move(stack_[first + i], arguments[i]);
    TORCH_CHECK(!(on_mps_ && stray_),
                "Expected all tensors to be on the same device, but found at least two devices, "
                "mps:0 and cpu! (in ",
                schema_.name(), ")");
    TORCH_CHECK(!(on_mps_ && cpu_generator_),
                "Expected a 'mps' device type for generator but found 'cpu'");
  }

  const std::vector<Tensor>& written() const { return written_; }

 private:
  void move(IValue& value, const c10::Argument& argument) {
    if (value.isDevice()) {
      if (value.toDevice().is_mps()) {
        require_mps0(value.toDevice());
        value = c10::Device(c10::DeviceType::CPU);
        on_mps_ = true;
      }
    } else if (value.isGenerator()) {
      const at::Generator generator = value.toGenerator();
      if (generator.device().is_mps()) {
        value = host_generator(generator);
      } else {
        cpu_generator_ = true;
      }
    } else if (value.isNone()) {
      // Without this, sampling on the device would consume the CPU's random numbers.
      if (is_optional_generator(argument)) value = host_generator(default_generator());
    } else {
      const bool written = argument.alias_info() && argument.alias_info()->isWrite();
      const bool read = !written || !(argument.kwarg_only() || overwrites_self(schema_.name()));
      const bool cpu_allowed = accepts_cpu_indices(schema_.name()) && argument.name() == "indices";
      value = map_tensors(value, [&](const Tensor& tensor) {
        if (!tensor.defined()) return tensor;
        if (tensor.is_mps()) {
          on_mps_ = true;
          if (read) call_.reads(tensor);
          if (written) written_.push_back(tensor);
        } else if ((tensor.dim() > 0 || written) && !cpu_allowed) {
          stray_ = true;  // a 0-dim CPU tensor counts as a number, unless it is written to
        }
        return bridge_.to_host(tensor);
      });
    }
  }

  const c10::FunctionSchema& schema_;
  torch::jit::Stack& stack_;
  Bridge& bridge_;
  OpCall& call_;
  std::vector<Tensor> written_;
  bool on_mps_ = false;
  bool stray_ = false;  // a CPU tensor that cannot stand beside MPS ones
  bool cpu_generator_ = false;
};

}  // namespace

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  OpCall call(named_op(op));
  ++counters().fallback_ops;
  if (reads_back(schema.name()) || (accepts_cpu_indices(schema.name()) &&
                                    indexes_with_mask(*stack, schema.arguments().size()))) {
    count_host_read();
    metal::wait(metal::Reason::kUser);
  } else {
    metal::wait(metal::Reason::kFallback);
  }

  Bridge bridge(&call);
  Arguments arguments(schema, *stack, bridge, call);
  arguments.move_to_host();
  {
    HostAllocationsAreMetal metal_memory;
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    op.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), stack);
  }
  bridge.mirror_changes();
  for (const Tensor& tensor : arguments.written()) call.writes(tensor);  // resized by now
  const size_t first = stack->size() - schema.returns().size();
  for (size_t i = first; i < stack->size(); ++i) {
    (*stack)[i] =
        map_tensors((*stack)[i], [&](const Tensor& tensor) { return bridge.to_mps(tensor); });
  }
}

void run_missing_op(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  refuse_missing_op(op);
  run_on_cpu(op, stack);
}

namespace {

// What reaches MPS with no kernel registered for it: most of ATen, and what a Mac refuses. An
// operator of an extension has an MPS kernel or none; that it has a CPU kernel is no help there.
void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const bool aten = op.schema().name().rfind("aten::", 0) == 0;
  if (!aten || !op.hasComputedKernelForDispatchKey(DispatchKey::CPU)) refuse_missing_op(op);
  run_on_cpu(op, stack);
}

}  // namespace

TORCH_LIBRARY_IMPL(_, MPS, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

}  // namespace softmps
