// What a native extension for a Mac does, right and wrong: for tests/softmps/test_host_code.py.
#pragma once

#include <cstddef>
#include <cstdint>

namespace softmps::host_code {

// PyTorch's C++ functions, called as an extension calls them.
bool is_available();
void synchronize();
void commit();
void commit_inside_the_queue();

// Adds 1 to `count` floats that a kernel reaches through an address in a table. `buffer`: the
// id<MTLBuffer>, which is tensor.untyped_storage().data_ptr(). declare: say with useResource: that
// the kernel reaches it. keep: hold it until the work is done.
void add_one_bindless(uintptr_t buffer, size_t count, bool declare, bool keep);

void leave_encoder_open();
void commit_pytorchs_buffer();
void throw_carried();
void sync_inside_the_queue();

}  // namespace softmps::host_code
