// Process-wide facts.
#pragma once
#include <string>

namespace softmetal {

// In a child of fork() neither the worker threads nor the queues exist, and the memory of buffers
// is shared with the parent. As on a Mac, Metal cannot be used there.
bool forked();
void check_not_forked();  // throws ValidationError

// Folder of libsoftmetal.so; the kernels, the shading language library and the compiler are found
// relative to it.
const std::string& library_folder();

// Path of the program of that name in PATH, or "".
std::string find_program(const std::string& name);

}  // namespace softmetal
