// Memory: an MPS storage is an id<MTLBuffer>, and the CPU kernels behind the fallback work on its
// contents.
//
// The data pointer of an MPS storage *is* the id<MTLBuffer>, as on a Mac: dereferencing it on the
// host gives the bytes of an Objective-C object. The context of its DataPtr is a Block.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>

#include <cstddef>

namespace softmps {

inline const c10::Device kMps0{c10::DeviceType::MPS, 0};

struct Block {
  void* buffer;    // id<MTLBuffer>, retained
  void* contents;  // where operators on the CPU see its bytes
  size_t length;
  c10::Storage host;  // a CPU storage over `contents`: all host views share it
};

// The block behind an MPS storage; nullptr if the storage is empty.
Block* block_of(const c10::Storage& storage);

// PyTorch's allocator for DeviceType::MPS.
c10::Allocator* mps_allocator();

// Puts softmps's hook around PyTorch's CPU allocator. While a CPU kernel runs for the fallback,
// what it allocates on that thread is Metal memory: its results become MPS tensors without a copy
// and stay under the device's protection.
void install_host_allocator();

class HostAllocationsAreMetal {
 public:
  HostAllocationsAreMetal();
  ~HostAllocationsAreMetal();
  HostAllocationsAreMetal(const HostAllocationsAreMetal&) = delete;
  HostAllocationsAreMetal& operator=(const HostAllocationsAreMetal&) = delete;

 private:
  bool before_;
};

c10::Storage empty_host_storage();

// An MPS data pointer over an existing CPU storage; memory that is not Metal's is copied.
c10::DataPtr mps_data_from_host(c10::Storage host);

// Memory figures, in bytes.
size_t allocated_memory();
size_t driver_memory();  // the largest `allocated_memory` since the last reset
void reset_driver_memory();
void set_memory_fraction(double ratio);  // of recommended_max_memory; 0: no limit

}  // namespace softmps
