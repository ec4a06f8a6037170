#include "trace_space.h"

namespace softmetal::tracing {

uint32_t Space::number_of(const Record& record) {
  uint32_t& number = recent[(record.pc * 31u + record.thread * 17u + record.kind) % recent.size()];
  const auto is_same = [&](const Record& r) {
    return r.group == record.group && r.epoch == record.epoch && r.sync == record.sync &&
           r.pc == record.pc && r.thread == record.thread && r.kind == record.kind;
  };
  if (number && is_same(records[number - 1])) return number;
  records.push_back(record);
  return number = records.size();
}

void Space::forget() {
  shadow.each_page([](uintptr_t, Page& page) { page.clear(); });
  records.clear();
  recent.fill(0);
}

}  // namespace softmetal::tracing
