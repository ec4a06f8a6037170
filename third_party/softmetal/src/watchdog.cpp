#include "watchdog.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace softmetal {

// Looks a few times a second. Dispatches that are short and many only change what it looks at.
class WatchdogThread {
 public:
  static WatchdogThread& get() {
    static auto* thread = new WatchdogThread;  // never destroyed: it outlives main()
    return *thread;
  }

  void watch(Watchdog* watchdog) {
    std::lock_guard<std::mutex> guard(lock_);
    current_ = watchdog;
    ++serial_;
    if (asleep_) changed_.notify_all();
  }

 private:
  using Clock = std::chrono::steady_clock;

  WatchdogThread() {
    std::thread([this] { loop(); }).detach();
  }

  void loop() {
    std::unique_lock<std::mutex> lock(lock_);
    for (;;) {
      asleep_ = true;
      changed_.wait(lock, [&] { return current_ != nullptr; });
      asleep_ = false;
      uint64_t serial = 0, progress = 0;
      Clock::time_point since;
      while (current_) {
        const uint64_t now = current_->progress_.load(std::memory_order_relaxed);
        if (serial != serial_ || progress != now) {
          serial = serial_;
          progress = now;
          since = Clock::now();
        } else if (Clock::now() - since > std::chrono::seconds(current_->seconds_)) {
          current_->stop_();
        }
        lock.unlock();
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        lock.lock();
      }
    }
  }

  std::mutex lock_;
  std::condition_variable changed_;
  Watchdog* current_ = nullptr;
  uint64_t serial_ = 0;
  bool asleep_ = false;
};

Watchdog::Watchdog(unsigned seconds, const std::atomic<uint64_t>& progress,
                   std::function<void()> stop)
    : seconds_(seconds), progress_(progress), stop_(std::move(stop)) {
  if (seconds_) WatchdogThread::get().watch(this);
}

Watchdog::~Watchdog() {
  if (seconds_) WatchdogThread::get().watch(nullptr);
}

}  // namespace softmetal
