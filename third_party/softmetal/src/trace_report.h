// What softmetal::trace() returns: collected from dispatches as they end.
#pragma once
#include <string>

#include "softmetal/softmetal.h"

namespace softmetal::tracing {

void count(Traffic& traffic, int kind, uint64_t bytes);  // one access; kind: sm_access_kind

// Adds what one dispatch did.
void report_dispatch(const std::string& kernel, const std::vector<TracedBuffer>& buffers,
                     const std::map<std::string, Traffic>& threadgroup);

void report_race(Race race);
void report_races_left_out(uint64_t count);

}  // namespace softmetal::tracing
