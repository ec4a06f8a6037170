// Source lines of compiled kernels.
#pragma once
#include <string>

namespace softmetal {

// "file.metal:12:3" of an address in a kernel library, "" where it cannot be told: no symbolizer
// (llvm-symbolizer, llvm-symbolizer-NN, addr2line) or no line table. Never fails.
std::string source_line(const void* pc);

}  // namespace softmetal
