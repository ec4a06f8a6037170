// The threads that run threadgroups, and what each of them keeps between dispatches.
#pragma once
#include <functional>

namespace softmetal {

// Runs body on so many threads, of which the calling one is the last, and waits for all. Not
// reentrant.
void run_on_workers(const std::function<void()>& body, unsigned workers);

// Of the calling worker thread.
char* fiber_stack_top(unsigned index);
char* threadgroup_memory();
bool in_stack_guard(const void* address);  // below any worker's fiber stack

// Zeroed memory that is never freed.
void* allocate_forever(unsigned long bytes);

}  // namespace softmetal
