#pragma once

#include <pybind11/pybind11.h>

namespace softmps {

// softmetal's counters and our own in one dict; "kernels" holds one dict for each kernel name.
pybind11::dict device_and_own_counters();
void reset_device_counters();

}  // namespace softmps
