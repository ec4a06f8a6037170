#include "trace_order.h"

#include <algorithm>

namespace softmetal::tracing {

// ---- barriers -----------------------------------------------------------------------------------

void Barriers::start_group() {
  epoch_ = 0;
  count_.fill(0);
  for (auto& passed : passed_) passed.clear();
}

void Barriers::threadgroup() {
  ++epoch_;
  for (auto& passed : passed_) passed.clear();  // what was before is ordered by this one
}

void Barriers::simdgroup(unsigned index, unsigned lanes) {
  passed_[index].push_back({++count_[index], lanes});
}

bool Barriers::between(const Record& record, unsigned thread) const {
  if (record.thread / SM_SIMD != thread / SM_SIMD) return false;
  const uint32_t both = 1u << record.thread % SM_SIMD | 1u << thread % SM_SIMD;
  const auto& passed = passed_[thread / SM_SIMD];
  return std::any_of(passed.rbegin(), passed.rend(), [&](const Passed& barrier) {
    return barrier.number > record.sync && (barrier.lanes & both) == both;
  });
}

// ---- order --------------------------------------------------------------------------------------

bool Order::before(uint32_t earlier, const Record& now) const {
  const Record& then = record(earlier);
  if (then.group != now.group) return false;
  return then.thread == now.thread || then.epoch != now.epoch ||
         barriers_.between(then, now.thread);
}

uint32_t Order::unordered(uint32_t one, const Record& now) const {
  return one && !before(one, now) ? one : 0;
}

uint32_t Order::unordered(const Pair& pair, const Record& now) const {
  const uint32_t first = unordered(pair[0], now);
  return first ? first : unordered(pair[1], now);
}

namespace {
// How far apart two accesses are that are not ordered.
int distance(const Record& a, const Record& b) {
  if (a.group != b.group) return 3;
  if (a.thread / SM_SIMD != b.thread / SM_SIMD) return 2;
  return 1;
}
}  // namespace

void Order::keep(Pair& pair, uint32_t number) const {
  const Record& now = record(number);
  for (uint32_t& one : pair) {
    if (one && before(one, now)) one = 0;
  }
  for (uint32_t& one : pair) {
    if (one) continue;
    one = number;
    return;
  }
  const Record &first = record(pair[0]), &second = record(pair[1]);
  if (distance(first, now) > distance(first, second)) pair[1] = number;
}

uint32_t Order::enter(Cell& cell, uint32_t number) const {
  const Record& now = record(number);
  uint32_t race = unordered(cell.write, now);
  const auto also = [&](const Pair& pair) {
    if (!race) race = unordered(pair, now);
  };
  switch (now.kind) {
    case SM_READ:
      also(cell.atomic_writes);
      keep(cell.reads, number);
      break;
    case SM_ATOMIC_READ:
      keep(cell.atomic_reads, number);
      break;
    case SM_ATOMIC_WRITE:
    case SM_ATOMIC_UPDATE:
      also(cell.reads);
      keep(cell.atomic_writes, number);
      break;
    case SM_WRITE:
      also(cell.reads);
      also(cell.atomic_reads);
      also(cell.atomic_writes);
      cell.write = number;
      break;
  }
  return race;
}

}  // namespace softmetal::tracing
