// Where buffers live: one sparse memory file mapped three times, so that each buffer has three
// addresses.
//   own view   always readable and writable: for the device itself
//   cpu view   the same for the host, but for what it may not touch yet (early_access.h):
//   -[MTLBuffer
//              contents]
//   gpu view   inaccessible but for what the running dispatch may touch: -[MTLBuffer gpuAddress]
// A buffer costs no file descriptor and, until it is used, no memory map. Freed ranges are merged
// and used again. Between two blocks lies a gap that is never accessible.
#pragma once
#include <cstddef>
#include <map>
#include <set>
#include <utility>

namespace softmetal {

size_t page_size();

class Arena {
 public:
  static Arena& get();  // never destroyed: buffers may outlive main()

  static constexpr size_t npos = ~static_cast<size_t>(0);
  static constexpr size_t kGapPages = 16;

  // Offset of a block of `pages` pages, or npos when the arena is full. Callers hold the lock that
  // guards the registry (memory.cpp).
  size_t take(size_t pages);
  void give(size_t offset, size_t pages);
  void protect_cpu(int protection);  // the whole cpu view
  size_t trim();                     // gives the memory of free ranges back to the system; bytes

  char* own() const { return own_; }
  char* cpu() const { return cpu_; }
  char* gpu() const { return gpu_; }
  size_t size() const { return size_; }  // of each view
  bool in_cpu(const void* p) const { return offset_in(cpu_, p) < size_; }
  bool in_gpu(const void* p) const { return offset_in(gpu_, p) < size_; }

 private:
  Arena();
  static size_t offset_in(const char* view, const void* p) {
    return static_cast<size_t>(static_cast<const char*>(p) - view);  // huge when p is below
  }
  void insert(size_t offset, size_t pages);

  int file_ = -1;
  char* own_ = nullptr;
  char* cpu_ = nullptr;
  char* gpu_ = nullptr;
  size_t size_ = 0;
  size_t used_up_to_ = 0;                        // nothing above was ever handed out
  size_t freed_bytes_ = 0;                       // since the last trim: memory held for reuse
  std::map<size_t, size_t> by_offset_;           // free ranges: offset -> pages
  std::set<std::pair<size_t, size_t>> by_size_;  // the same: (pages, offset)
};

}  // namespace softmetal
