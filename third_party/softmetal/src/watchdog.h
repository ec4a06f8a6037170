// Stops a dispatch that makes no progress, as a GPU's driver does.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>

namespace softmetal {

// Watches for as long as it lives, one at a time in the process. When `progress` has not changed
// for `seconds` (0: never mind), calls stop() on a thread of its own, again and again.
class Watchdog {
 public:
  Watchdog(unsigned seconds, const std::atomic<uint64_t>& progress, std::function<void()> stop);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;

 private:
  friend class WatchdogThread;
  const unsigned seconds_;
  const std::atomic<uint64_t>& progress_;
  const std::function<void()> stop_;
};

}  // namespace softmetal
