#include "memory_stats.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <cstdlib>
#include <iomanip>
#include <limits>
#include <mutex>
#include <sstream>
#include <string>

#include "blocks.h"
#include "metal.h"

namespace softmps {
namespace {

constexpr double kDefaultHighWatermarkRatio = 1.7;  // PyTorch's
constexpr double kMaxHighWatermarkRatio = 2.0;
constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();

std::atomic<size_t> current{0};
std::atomic<size_t> high_water{0};

size_t limit_for(double ratio) {
  TORCH_CHECK(ratio >= 0.0 && ratio <= kMaxHighWatermarkRatio, "invalid high watermark ratio ",
              ratio);
  if (ratio == 0.0) return kUnlimited;
  return static_cast<size_t>(ratio * static_cast<double>(metal::recommended_max_working_set()));
}

std::atomic<size_t>& limit() {
  static std::atomic<size_t> limit{[] {
    const char* setting = std::getenv("PYTORCH_MPS_HIGH_WATERMARK_RATIO");
    return limit_for(setting ? std::strtod(setting, nullptr) : kDefaultHighWatermarkRatio);
  }()};
  return limit;
}

std::string format_size(size_t bytes) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(2);
  const auto amount = static_cast<double>(bytes);
  if (bytes <= 1024) {
    out << bytes << " bytes";
  } else if (bytes <= 1048576) {
    out << amount / 1024.0 << " KiB";
  } else if (bytes <= 1073741824) {
    out << amount / 1048576.0 << " MiB";
  } else {
    out << amount / 1073741824.0 << " GiB";
  }
  return out.str();
}

}  // namespace

void check_allocation(size_t length) {
  static const size_t max_buffer = metal::max_buffer_length();
  TORCH_CHECK(length < max_buffer, "Invalid buffer size: ", format_size(length));
  const size_t allowed = limit();
  TORCH_CHECK(
      allowed == kUnlimited || current + length <= allowed,
      "MPS backend out of memory (MPS allocated: ", format_size(current),
      ", other allocations: 0 bytes, max allowed: ", format_size(allowed), "). Tried to allocate ",
      format_size(length),
      " on shared pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for "
      "memory allocations (may cause system failure).");
}

void count_allocation(int64_t bytes) {
  const size_t now = current += static_cast<size_t>(bytes);
  size_t highest = high_water;
  while (now > highest && !high_water.compare_exchange_weak(highest, now)) {
  }
}

size_t allocated_memory() {
  return current;
}
size_t driver_memory() {
  return high_water;
}
void reset_driver_memory() {
  high_water = current.load();
}
void set_memory_fraction(double ratio) {
  limit() = limit_for(ratio);
}

}  // namespace softmps
