// Which accesses are ordered, and the search for two that are not.
//
// In one threadgroup: the same thread's; those with a threadgroup_barrier between that names their
// memory; those of two lanes with a simdgroup_barrier between that both reached and that names it.
// Nothing orders threadgroups of a dispatch, nor dispatches of a concurrent encoder between two
// barriers. Atomic operations are relaxed: they order nothing, and do not race with each other.
//
// A cell keeps one write, since a second one that is not ordered after it is a race already. Of the
// reads it keeps two that are not ordered and as far apart as any: of two threadgroups, else of two
// simdgroups, else of two threads. A write that races with some read then races with one of these.
// So do reads and writes that are atomic.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "softmetal_abi.h"
#include "trace_shadow.h"

namespace softmetal::tracing {

// The barriers that a threadgroup has passed, for one kind of memory.
class Barriers {
 public:
  void start_group();
  void threadgroup();
  void simdgroup(unsigned index, unsigned lanes);

  uint32_t epoch() const { return epoch_; }
  uint32_t sync(unsigned thread) const { return count_[thread / SM_SIMD]; }
  // A barrier of the simdgroup of both threads after `record`, which was the access of one.
  bool between(const Record& record, unsigned thread) const;

 private:
  struct Passed {
    uint32_t number;
    uint32_t lanes;
  };
  uint32_t epoch_ = 0;
  std::array<uint32_t, SM_MAX_THREADS / SM_SIMD> count_{};
  std::array<std::vector<Passed>, SM_MAX_THREADS / SM_SIMD> passed_;
};

// Compares one access with those before it.
class Order {
 public:
  Order(const std::vector<Record>& records, const Barriers& barriers)
      : records_(records), barriers_(barriers) {}

  // Enters access `now` into the cell; the number of a record that races with it, or 0.
  uint32_t enter(Cell& cell, uint32_t now) const;

 private:
  using Pair = std::array<uint32_t, 2>;
  const Record& record(uint32_t number) const { return records_[number - 1]; }
  bool before(uint32_t earlier, const Record& now) const;
  uint32_t unordered(uint32_t one, const Record& now) const;
  uint32_t unordered(const Pair& pair, const Record& now) const;
  void keep(Pair& pair, uint32_t now) const;

  const std::vector<Record>& records_;
  const Barriers& barriers_;
};

}  // namespace softmetal::tracing
