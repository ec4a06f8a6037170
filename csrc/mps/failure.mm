#include "mps/failure.h"

#include <mutex>
#include <utility>

#include "checks.h"

namespace mps_ds::mps {

namespace {

struct Noted {
  std::mutex mutex;
  std::string reason;
};

Noted& noted() {
  static Noted* noted = new Noted;  // leaked: the GPU may end after the process's statics
  return *noted;
}

}  // namespace

void note_failure(const std::string& reason) {
  std::lock_guard<std::mutex> lock(noted().mutex);
  if (noted().reason.empty()) noted().reason = reason;
}

void raise_failure() {
  std::string reason;
  {
    std::lock_guard<std::mutex> lock(noted().mutex);
    reason = std::exchange(noted().reason, {});
  }
  MPS_DS_CHECK(reason.empty(),
               "the GPU failed in a command buffer that holds operations of mps_ds: ", reason,
               ". What it should have written is undefined: go back to a checkpoint");
}

}  // namespace mps_ds::mps
