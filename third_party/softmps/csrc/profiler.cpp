#include "profiler.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <sstream>

namespace softmps::profiler {
namespace {
std::atomic<bool> tracing{false};
}

void start(const std::string& modes) {
  TORCH_CHECK(!tracing, "Tracing Signposts is already enabled ");
  std::istringstream all(modes);
  std::string mode;
  while (std::getline(all, mode, ',')) {
    if (mode.empty()) continue;
    TORCH_CHECK(mode == "interval" || mode == "event", "Invalid Signpost trace mode: ", mode);
    tracing = true;
  }
}

void stop() {
  tracing = false;
}

}  // namespace softmps::profiler
