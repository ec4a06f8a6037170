// What softmps counts itself. softmetal counts what reaches the device; it cannot know why.
#pragma once

#include <atomic>
#include <cstdint>

namespace softmps {

struct Counters {
  std::atomic<uint64_t> waits{0};         // the program asked for one, or a copy needed it
  std::atomic<uint64_t> host_reads{0};    // device to host: .item(), .cpu(), data-dependent shapes
  std::atomic<uint64_t> host_writes{0};   // host to device
  std::atomic<uint64_t> fallback_ops{0};  // operations that ran on the CPU
  std::atomic<uint64_t> fallback_commits{0};  // commits and waits that a Mac would not make: only
  std::atomic<uint64_t> fallback_waits{0};    // because an operation ran on the CPU

  void reset() {
    for (auto* counter :
         {&waits, &host_reads, &host_writes, &fallback_ops, &fallback_commits, &fallback_waits}) {
      *counter = 0;
    }
  }
};

Counters& counters();

// Also for the operator that runs on this thread, if one does (op_call.h).
void count_wait();
void count_host_read();

}  // namespace softmps
