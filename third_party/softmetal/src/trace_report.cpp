#include "trace_report.h"

#include <algorithm>
#include <mutex>

#include "softmetal_abi.h"

namespace softmetal {
namespace tracing {
namespace {

std::mutex g_lock;
Trace& collected() {
  static auto* trace = new Trace;
  return *trace;
}

bool is_same(const TracedBuffer& a, const TracedBuffer& b) {
  return a.address == b.address && a.length == b.length && a.label == b.label &&
         a.argument == b.argument && a.set_bytes == b.set_bytes;
}

// One of each pair of places is enough, also of many encoders.
bool is_same_place(const Race& a, const Race& b) {
  return a.memory == b.memory && a.first.kernel == b.first.kernel && a.first.line == b.first.line &&
         a.second.kernel == b.second.kernel && a.second.line == b.second.line &&
         a.first.write == b.first.write && a.second.write == b.second.write;
}

}  // namespace

void count(Traffic& t, int kind, uint64_t bytes) {
  const bool update = kind == SM_ATOMIC_UPDATE;
  if (kind == SM_READ || kind == SM_ATOMIC_READ || update) {
    ++t.reads;
    t.bytes_read += bytes;
    ++t.read_widths[bytes];
  }
  if (kind == SM_WRITE || kind == SM_ATOMIC_WRITE || update) {
    ++t.writes;
    t.bytes_written += bytes;
    ++t.write_widths[bytes];
  }
  t.atomics += kind != SM_READ && kind != SM_WRITE;
}

void report_dispatch(const std::string& kernel, const std::vector<TracedBuffer>& buffers,
                     const std::map<std::string, Traffic>& threadgroup) {
  std::lock_guard<std::mutex> lock(g_lock);
  TracedKernel& k = collected().kernels[kernel];
  ++k.dispatches;
  for (const TracedBuffer& buffer : buffers) {
    const auto known = std::find_if(k.buffers.begin(), k.buffers.end(),
                                    [&](const TracedBuffer& b) { return is_same(b, buffer); });
    if (known == k.buffers.end()) {
      k.buffers.push_back(buffer);
    } else {
      known->traffic += buffer.traffic;
    }
  }
  for (const auto& [name, traffic] : threadgroup) k.threadgroup[name] += traffic;
}

void report_race(Race race) {
  std::lock_guard<std::mutex> lock(g_lock);
  auto& races = collected().races;
  const bool known = std::any_of(races.begin(), races.end(),
                                 [&](const Race& r) { return is_same_place(r, race); });
  if (!known) races.push_back(std::move(race));
}

void report_races_left_out(uint64_t count) {
  std::lock_guard<std::mutex> lock(g_lock);
  collected().races_left_out += count;
}

}  // namespace tracing

Traffic& Traffic::operator+=(const Traffic& other) {
  reads += other.reads;
  writes += other.writes;
  bytes_read += other.bytes_read;
  bytes_written += other.bytes_written;
  distinct_read += other.distinct_read;
  distinct_written += other.distinct_written;
  atomics += other.atomics;
  for (const auto& [width, n] : other.read_widths) read_widths[width] += n;
  for (const auto& [width, n] : other.write_widths) write_widths[width] += n;
  return *this;
}

Trace trace() {
  std::lock_guard<std::mutex> lock(tracing::g_lock);
  return tracing::collected();
}

void reset_trace() {
  std::lock_guard<std::mutex> lock(tracing::g_lock);
  tracing::collected() = {};
}

}  // namespace softmetal
