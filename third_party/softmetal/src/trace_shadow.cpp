#include "trace_shadow.h"

#include <algorithm>

namespace softmetal::tracing {

void Page::refine(size_t begin, size_t bytes) {
  constexpr unsigned kLargest = 4;
  const unsigned wanted = __builtin_ctzl(begin | bytes | (size_t{1} << kLargest));
  if (cells_.empty()) {
    log_granule_ = wanted;
    cells_.resize(kBytes >> wanted);
  }
  if (wanted >= log_granule_) return;
  std::vector<Cell> finer(kBytes >> wanted);
  for (size_t i = 0; i < finer.size(); ++i) finer[i] = cells_[i >> (log_granule_ - wanted)];
  cells_ = std::move(finer);
  log_granule_ = wanted;
}

Page& Shadow::page(const char* address) {
  const uintptr_t number = reinterpret_cast<uintptr_t>(address) >> Page::kLogBytes;
  if (last_ && number == last_number_) return *last_;
  std::unique_ptr<Page>& page = pages_[number];
  if (!page) page = std::make_unique<Page>();
  last_number_ = number;
  last_ = page.get();
  return *last_;
}

void Shadow::clear(const char* begin, const char* end) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(begin) >> Page::kLogBytes;
  const uintptr_t last = (reinterpret_cast<uintptr_t>(end) - 1) >> Page::kLogBytes;
  for (auto& [number, page] : pages_) {
    if (number >= first && number <= last) page->clear();
  }
}

}  // namespace softmetal::tracing
