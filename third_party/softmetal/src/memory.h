// The bytes of a buffer, and which of them the running dispatch may touch.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "early_access.h"

namespace softmetal {

// Shared by the MTLBuffer that owns it and by command buffers that refer to it. When the owner
// goes, the others keep the address range from being used again, but may not touch it any more.
class Memory {
 public:
  static std::shared_ptr<Memory> allocate(size_t length);           // null: out of memory
  static std::shared_ptr<Memory> wrap(void* bytes, size_t length);  // newBufferWithBytesNoCopy:
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  char* own() const { return own_; }
  char* cpu() const { return cpu_; }
  char* gpu() const { return gpu_; }
  size_t length() const { return length_; }

  std::string label() const;
  void set_label(std::string label);

  void release();  // the owner is gone
  bool released() const;

  // Moves the bytes to the end of their pages for a length other than that of allocate(). For the
  // slots that hold setBytes: data (execute.cpp).
  void place(size_t length, size_t alignment);

 private:
  friend class Residency;
  friend class EarlyAccess;
  friend struct Location locate(const void* address);
  Memory() = default;
  bool protect(int protection);
  void fill_margins();
  const char* damaged() const;

  char* own_ = nullptr;
  char* cpu_ = nullptr;
  char* gpu_ = nullptr;
  size_t length_ = 0;
  size_t block_ = 0;        // place in the arena
  size_t block_pages_ = 0;  // 0: not ours (bytesNoCopy)
  int protection_ = 0;      // of the gpu view
  size_t resident_at_ = 0;  // place in the list of those that are accessible
  bool released_ = false;
  std::string label_;
  HostAccess host_;

  // Scratch of Residency::grant.
  unsigned long grant_ = 0;
  int wanted_ = 0;
};

// What lies at an address. Meant for error messages.
struct Location {
  enum Where {
    nowhere,        // no memory of this device
    inside,         // of a buffer
    out_of_bounds,  // just before or behind a buffer
    unowned         // device memory, but of no living buffer
  };
  Where where = nowhere;
  bool cpu_view = false;
  const Memory* memory = nullptr;  // compare only
  std::string label;
  size_t length = 0;
  long offset = 0;  // of the address in the buffer
  bool released = false;
  bool readable = false;
};
Location locate(const void* address);

struct Access {
  std::shared_ptr<Memory> memory;
  bool write;
};

// The set of buffers that the gpu view shows. One dispatch at a time.
class Residency {
 public:
  // Makes exactly these accessible. False: the system has no memory maps left.
  static bool grant(const std::vector<Access>& accesses);
  // After the dispatch: true when it wrote to the margin of a buffer (the bytes beside it that no
  // page guards); `found` is the first such byte. The accesses must still be held.
  static bool finish(Location& found);
};

// Settings::hide_contents. Host threads that touch the contents of a buffer in between wait.
class HiddenContents {
 public:
  static void hide();
  static void show();
  // In a signal handler: true when `address` was hidden and the access should be tried again.
  static bool wait_for(const void* address);
};

}  // namespace softmetal
