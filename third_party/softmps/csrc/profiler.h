// torch.mps.profiler: signposts that Apple's Instruments shows. Here nobody can look at them, so
// only the calls are checked.
#pragma once

#include <string>

namespace softmps::profiler {

void start(const std::string& modes);  // "interval", "event", or both with a comma
void stop();

}  // namespace softmps::profiler
