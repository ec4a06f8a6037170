// Pointers with a few flags each; a set that is filled thousands of times a step.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace softmetal {

class PointerTable {
 public:
  size_t size() const { return size_; }

  // Adds flags to those of `pointer`. Returns the flags it had before (0: it was not there).
  unsigned add(const void* pointer, unsigned flags) {
    if (size_ * 2 >= slots_.size()) grow();
    Slot& slot = find(pointer);
    const unsigned before = slot.flags;
    if (!slot.pointer) ++size_;
    slot.pointer = pointer;
    slot.flags |= flags;
    return before;
  }

 private:
  struct Slot {
    const void* pointer = nullptr;
    unsigned flags = 0;
  };

  Slot& find(const void* pointer) {
    const size_t mask = slots_.size() - 1;
    size_t i = (reinterpret_cast<uintptr_t>(pointer) * 0x9e3779b97f4a7c15u >> 32) & mask;
    while (slots_[i].pointer && slots_[i].pointer != pointer) i = (i + 1) & mask;
    return slots_[i];
  }

  void grow() {
    std::vector<Slot> old(slots_.empty() ? 16 : slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.pointer) find(slot.pointer) = slot;
    }
  }

  std::vector<Slot> slots_;
  size_t size_ = 0;
};

}  // namespace softmetal
