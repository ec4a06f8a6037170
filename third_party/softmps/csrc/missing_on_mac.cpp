#include "missing_on_mac.h"

#include <c10/util/Exception.h>
#include <caffe2/core/common.h>

#include <cstdlib>

namespace softmps {
namespace {

bool mac_falls_back() {
  static const bool enabled = [] {
    const char* setting = std::getenv("PYTORCH_ENABLE_MPS_FALLBACK");
    return setting && std::atoi(setting) != 0;
  }();
  return enabled;
}

std::string request_to_comment() {
  return "If you want this op to be considered for addition please comment on "
         "https://github.com/pytorch/pytorch/issues/141287 and mention use-case, that resulted in "
         "missing op as well as commit hash " +
         caffe2::GetBuildOptions().at("COMMIT_SHA");
}

}  // namespace

const std::unordered_set<std::string>& ops_missing_on_mac() {
  // Made by list_missing_ops.py.
  static const std::unordered_set<std::string> names = {
#include "missing_ops.inc"
  };
  return names;
}

void refuse_missing_op(const c10::OperatorHandle& op) {
  const std::string name = toString(op.operator_name());
  TORCH_CHECK_NOT_IMPLEMENTED(
      op.operator_name().getNamespace().value_or("") != "c10d", "The distributed operator '", name,
      "' is not currently implemented for the MPS device. ", request_to_comment(),
      ". Please note, that distributed operators can not fall back to CPU");
  TORCH_CHECK_NOT_IMPLEMENTED(
      mac_falls_back() && op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU),
      "The operator '", name, "' is not currently implemented for the MPS device. ",
      request_to_comment(),
      ". As a temporary fix, you can set the environment variable `PYTORCH_ENABLE_MPS_FALLBACK=1` "
      "to use the CPU as a fallback for this op. WARNING: this will be slower than running "
      "natively "
      "on MPS.");
  TORCH_WARN_ONCE(
      "The operator '", name,
      "' is not currently supported on the MPS backend and will fall back to run on the "
      "CPU. This may have performance implications.");
}

}  // namespace softmps
