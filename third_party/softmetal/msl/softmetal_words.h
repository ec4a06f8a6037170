// The words of MSL that C++ does not have. Included after the library and before a kernel's source,
// which therefore keeps its words, and the compiler's messages show it as it was written.
#pragma once
#pragma clang system_header

#define kernel
#define device
#define thread
#define threadgroup
#define ray_data
#define object_data
#define threadgroup_imageblock
// In one address space, what the constant one means is that nobody writes there.
#define constant const
