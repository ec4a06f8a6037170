#include "arena.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace softmetal {
namespace {

constexpr size_t kGiB = static_cast<size_t>(1) << 30;
constexpr size_t kKeepFreed = kGiB;  // freed memory kept for reuse before it is given back

// An eighth of the size before and behind a view stays inaccessible: a wild pointer out of one view
// must not find the next one, or whatever the system mapped there.
size_t margin(size_t size) {
  return size / 8;
}

void* map_view(int file, size_t size, int protection) {
  const size_t whole = size + 2 * margin(size);
  void* room = mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return MAP_FAILED;
  void* view = mmap(static_cast<char*>(room) + margin(size), size, protection,
                    MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file, 0);
  if (view == MAP_FAILED) munmap(room, whole);
  return view;
}

void unmap_view(void* view, size_t size) {
  munmap(static_cast<char*>(view) - margin(size), size + 2 * margin(size));
}

}  // namespace

size_t page_size() {
  static const size_t size = sysconf(_SC_PAGESIZE);
  return size;
}

Arena& Arena::get() {
  static Arena* arena = new Arena;
  return *arena;
}

Arena::Arena() {
  file_ = memfd_create("softmetal", MFD_CLOEXEC);
  if (file_ < 0) {
    perror("softmetal: memfd_create");
    abort();
  }
  // Address space, not memory. A limit on it (ulimit -v, an emulator) makes the arena smaller.
  for (size_ = 256 * kGiB; size_ >= kGiB / 4; size_ /= 2) {
    if (ftruncate(file_, size_)) continue;
    void* own = map_view(file_, size_, PROT_READ | PROT_WRITE);
    void* cpu = map_view(file_, size_, PROT_READ | PROT_WRITE);
    void* gpu = map_view(file_, size_, PROT_NONE);
    if (own != MAP_FAILED && cpu != MAP_FAILED && gpu != MAP_FAILED) {
      own_ = static_cast<char*>(own);
      cpu_ = static_cast<char*>(cpu);
      gpu_ = static_cast<char*>(gpu);
      break;
    }
    for (void* view : {own, cpu, gpu}) {
      if (view != MAP_FAILED) unmap_view(view, size_);
    }
  }
  if (!cpu_) {
    fprintf(stderr, "softmetal: no address space for buffers (768 MiB were refused)\n");
    abort();
  }
  used_up_to_ = kGapPages * page_size();  // a gap in front of the first block too
  insert(used_up_to_, size_ / page_size() - kGapPages);
}

void Arena::insert(size_t offset, size_t pages) {
  by_offset_.emplace(offset, pages);
  by_size_.emplace(pages, offset);
}

size_t Arena::take(size_t pages) {
  const size_t wanted = pages + kGapPages;
  auto best = by_size_.lower_bound({wanted, 0});  // the smallest that fits
  if (best == by_size_.end()) return npos;
  const auto [have, offset] = *best;
  by_size_.erase(best);
  by_offset_.erase(offset);
  if (have > wanted) insert(offset + wanted * page_size(), have - wanted);
  used_up_to_ = std::max(used_up_to_, offset + wanted * page_size());
  freed_bytes_ -= std::min(freed_bytes_, pages * page_size());
  return offset;
}

void Arena::give(size_t offset, size_t pages) {
  freed_bytes_ += pages * page_size();
  size_t begin = offset;
  size_t count = pages + kGapPages;
  auto next = by_offset_.lower_bound(offset);
  if (next != by_offset_.end() && next->first == offset + count * page_size()) {
    count += next->second;
    by_size_.erase({next->second, next->first});
    next = by_offset_.erase(next);
  }
  if (next != by_offset_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second * page_size() == begin) {
      begin = previous->first;
      count += previous->second;
      by_size_.erase({previous->second, previous->first});
      by_offset_.erase(previous);
    }
  }
  insert(begin, count);
  if (freed_bytes_ > kKeepFreed) trim();
}

void Arena::protect_cpu(int protection) {
  mprotect(cpu_, size_, protection);
}

size_t Arena::trim() {
  for (const auto& [offset, pages] : by_offset_) {
    const size_t end = std::min(offset + pages * page_size(), used_up_to_);
    if (end > offset) {
      fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, end - offset);
    }
  }
  return std::exchange(freed_bytes_, 0);
}

}  // namespace softmetal
