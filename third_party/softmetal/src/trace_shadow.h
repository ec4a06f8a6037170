// What a tracing build remembers of each byte of memory that threads share: who read and wrote it.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace softmetal::tracing {

// An access, as later ones are compared with it. A number stands for it in the cells: its place in
// a list, plus one.
struct Record {
  uint32_t group;    // threadgroup, counted over all dispatches that are compared
  uint32_t epoch;    // barriers of the threadgroup before it
  uint32_t sync;     // barriers of its simdgroup before it
  uint32_t pc;       // offset in the code of the kernel library
  uint16_t thread;   // index in the threadgroup
  uint8_t kind;      // sm_access_kind
  uint8_t reserved;  // 0
};

// The accesses to one granule that may still race with one to come; 0: none. Why two are enough is
// said in trace_order.h.
struct Cell {
  uint32_t write = 0;
  std::array<uint32_t, 2> reads{}, atomic_reads{}, atomic_writes{};
};

// Which bytes of a page were touched.
class Touched {
 public:
  static constexpr size_t kWordBytes = 64;  // bytes of memory that a word is about

  void add(size_t begin, size_t bytes) {
    while (bytes) {
      const size_t bit = begin % 64, n = bytes < 64 - bit ? bytes : 64 - bit;
      words_[begin / 64] |= (n == 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1) << bit;
      begin += n;
      bytes -= n;
    }
  }
  uint64_t word(size_t n) const { return words_[n]; }
  void clear() { words_.fill(0); }

 private:
  std::array<uint64_t, 64> words_{};
};

// The cells of a page. A granule is as large as all accesses to the page allow: 16 bytes where it
// is only used in aligned vectors of four floats, 1 where someone touched a byte.
class Page {
 public:
  static constexpr unsigned kLogBytes = 12;
  static constexpr size_t kBytes = size_t{1} << kLogBytes;

  // Cells of [begin, begin + bytes) in the page; f(cell, offset in the page).
  template <class F>
  void each(size_t begin, size_t bytes, F f) {
    refine(begin, bytes);
    for (size_t i = begin >> log_granule_; i < (begin + bytes) >> log_granule_; ++i) {
      f(cells_[i], i << log_granule_);
    }
  }
  void clear() { cells_.clear(); }

  Touched read, written;  // by the dispatch that runs

 private:
  void refine(size_t begin, size_t bytes);

  unsigned log_granule_ = 0;
  std::vector<Cell> cells_;
};

class Shadow {
 public:
  Page& page(const char* address);
  // Forgets who used [begin, end).
  void clear(const char* begin, const char* end);
  void clear() { pages_.clear(), last_ = nullptr; }

  // f(address of the page, page)
  template <class F>
  void each_page(F f) {
    for (auto& [number, page] : pages_) f(number << Page::kLogBytes, *page);
  }

 private:
  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages_;
  uintptr_t last_number_ = 0;
  Page* last_ = nullptr;
};

// Splits [address, address + bytes) at the ends of pages: f(page, offset in it, bytes).
template <class F>
void each_page(Shadow& shadow, const char* address, size_t bytes, F f) {
  while (bytes) {
    const size_t offset = reinterpret_cast<uintptr_t>(address) & (Page::kBytes - 1);
    const size_t part = bytes < Page::kBytes - offset ? bytes : Page::kBytes - offset;
    f(shadow.page(address), offset, part);
    address += part;
    bytes -= part;
  }
}

}  // namespace softmetal::tracing
