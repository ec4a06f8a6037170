// Memory of one kind (device or threadgroup), the barriers that order it, and who used it.
#pragma once
#include <array>
#include <vector>

#include "trace_order.h"
#include "trace_shadow.h"

namespace softmetal::tracing {

struct Space {
  Shadow shadow;
  Barriers barriers;
  std::vector<Record> records;
  std::array<uint32_t, 4096> recent{};  // numbers of records, by hash

  uint32_t number_of(const Record& record);
  void forget();  // all accesses
};

}  // namespace softmetal::tracing
