// The baseline of x86-64 has no fma instruction: std::fma is then a library call. The second clone
// serves every machine since 2013, chosen at load time.
#pragma once

#if defined(__x86_64__) && defined(__linux__)
#define MPS_DS_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define MPS_DS_CLONES
#endif
