#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "arena.h"
#include "process.h"
#include "softmetal/softmetal.h"

namespace softmetal {
namespace {

// A write into the margin shows as a changed byte; a read from it gives NaN.
constexpr unsigned char kMargin = 0xff;
constexpr size_t kMarginBytes = 256;  // checked on each side

std::mutex g_lock;  // guards everything below, the arena, and the private members of Memory
// Never destroyed, as all of the device's state: queues may still run when the process ends.
auto& g_blocks = *new std::map<size_t, Memory*>;  // block offset -> its buffer
auto& g_resident = *new std::vector<Memory*>;     // protection other than PROT_NONE
auto& g_granted = *new std::vector<Memory*>;      // to the running dispatch
unsigned long g_grants = 0;

// Released blocks, oldest first. They rest here before they are used again, so that a stale address
// faults rather than meets the next buffer.
struct Resting {
  size_t block, pages;
};
auto& g_resting = *new std::deque<Resting>;
size_t g_resting_bytes = 0;
constexpr size_t kMaxResting = 256;
constexpr size_t kMaxRestingBytes = 16 << 20;

void rest(size_t block, size_t pages) {
  g_resting.push_back({block, pages});
  g_resting_bytes += pages * page_size();
  while (g_resting.size() > kMaxResting || g_resting_bytes > kMaxRestingBytes) {
    const Resting oldest = g_resting.front();
    g_resting.pop_front();
    g_resting_bytes -= oldest.pages * page_size();
    EarlyAccess::forget(oldest.block);
    Arena::get().give(oldest.block, oldest.pages);
  }
}

void wake_all() {
  for (const Resting& r : g_resting) {
    EarlyAccess::forget(r.block);
    Arena::get().give(r.block, r.pages);
  }
  g_resting.clear();
  g_resting_bytes = 0;
}

size_t round_up(size_t n, size_t step) {
  return (n + step - 1) / step * step;
}

}  // namespace

std::shared_ptr<Memory> Memory::allocate(size_t length) {
  const Settings s = settings();
  std::shared_ptr<Memory> m(new Memory);
  std::lock_guard<std::mutex> lock(g_lock);
  Arena& arena = Arena::get();
  m->length_ = length;
  m->block_pages_ = round_up(std::max<size_t>(length, 1), page_size()) / page_size();
  m->block_ = arena.take(m->block_pages_);
  if (m->block_ == Arena::npos) {
    wake_all();
    m->block_ = arena.take(m->block_pages_);
  }
  if (m->block_ == Arena::npos) {
    m->block_pages_ = 0;
    return nullptr;
  }
  size_t at = m->block_;
  if (s.guard == Guard::back) {
    at += m->block_pages_ * page_size() -
          round_up(length, std::min<size_t>(s.alignment, page_size()));
  }
  m->own_ = arena.own() + at;
  m->cpu_ = arena.cpu() + at;
  m->gpu_ = arena.gpu() + at;
  g_blocks.emplace(m->block_, m.get());
  if (s.poison) memset(m->own_, 0xff, length);
  m->fill_margins();
  return m;
}

std::shared_ptr<Memory> Memory::wrap(void* bytes, size_t length) {
  std::shared_ptr<Memory> m(new Memory);
  m->own_ = m->cpu_ = m->gpu_ = static_cast<char*>(bytes);
  m->length_ = length;
  return m;
}

Memory::~Memory() {
  if (!block_pages_ || forked()) return;  // the parent's arena is not the child's to change
  std::lock_guard<std::mutex> lock(g_lock);
  protect(PROT_NONE);
  g_blocks.erase(block_);
  rest(block_, block_pages_);
}

void Memory::release() {
  if (forked()) return;
  std::lock_guard<std::mutex> lock(g_lock);
  released_ = true;
  EarlyAccess::release(*this);
  protect(PROT_NONE);  // also under a dispatch that is running: it will fault
}

bool Memory::released() const {
  std::lock_guard<std::mutex> lock(g_lock);
  return released_;
}

std::string Memory::label() const {
  std::lock_guard<std::mutex> lock(g_lock);
  return label_;
}

void Memory::set_label(std::string label) {
  std::lock_guard<std::mutex> lock(g_lock);
  label_ = std::move(label);
}

void Memory::place(size_t length, size_t alignment) {
  std::lock_guard<std::mutex> lock(g_lock);
  const size_t at = block_ + block_pages_ * page_size() - round_up(length, alignment);
  length_ = length;
  own_ = Arena::get().own() + at;
  cpu_ = Arena::get().cpu() + at;
  gpu_ = Arena::get().gpu() + at;
}

bool Memory::protect(int protection) {
  if (!block_pages_ || protection == protection_) return true;
  if (mprotect(Arena::get().gpu() + block_, block_pages_ * page_size(), protection)) return false;
  if (protection_ == PROT_NONE) {
    resident_at_ = g_resident.size();
    g_resident.push_back(this);
  } else if (protection == PROT_NONE) {
    g_resident[resident_at_] = g_resident.back();
    g_resident[resident_at_]->resident_at_ = resident_at_;
    g_resident.pop_back();
  }
  protection_ = protection;
  return true;
}

// ---- margins ------------------------------------------------------------------------------------

namespace {
struct Range {
  char *begin, *end;
};
}  // namespace

static void margins(char* bytes, size_t length, char* block, size_t block_bytes, Range out[2]) {
  out[0] = {std::max(block, bytes - kMarginBytes), bytes};
  out[1] = {bytes + length, std::min(block + block_bytes, bytes + length + kMarginBytes)};
}

void Memory::fill_margins() {
  Range side[2];
  margins(own_, length_, Arena::get().own() + block_, block_pages_ * page_size(), side);
  for (const Range& r : side) memset(r.begin, kMargin, r.end - r.begin);
}

const char* Memory::damaged() const {
  Range side[2];
  margins(own_, length_, Arena::get().own() + block_, block_pages_ * page_size(), side);
  for (const Range& r : side) {
    const char* bad = std::find_if(r.begin, r.end, [](char c) { return c != char(kMargin); });
    if (bad != r.end) return bad;
  }
  return nullptr;
}

// ---- residency ----------------------------------------------------------------------------------

bool Residency::grant(const std::vector<Access>& accesses) {
  std::lock_guard<std::mutex> lock(g_lock);
  ++g_grants;
  g_granted.clear();
  for (const Access& a : accesses) {
    Memory* m = a.memory.get();
    if (m->grant_ != g_grants) {
      m->grant_ = g_grants;
      m->wanted_ = PROT_NONE;
      g_granted.push_back(m);
    }
    m->wanted_ |= a.write ? PROT_READ | PROT_WRITE : PROT_READ;
  }
  std::vector<Memory*> leave;
  for (Memory* m : g_resident) {
    if (m->grant_ != g_grants) leave.push_back(m);
  }
  bool ok = true;
  for (Memory* m : leave) ok = m->protect(PROT_NONE) && ok;
  for (Memory* m : g_granted) {
    if (!m->released_) ok = m->protect(m->wanted_) && ok;
  }
  return ok;
}

bool Residency::finish(Location& found) {
  std::lock_guard<std::mutex> lock(g_lock);
  bool damage = false;
  for (Memory* m : g_granted) {
    if (!m->block_pages_ || m->released_ || !(m->wanted_ & PROT_WRITE)) continue;
    const char* bad = m->damaged();
    if (!bad) continue;
    if (!damage) {
      found.where = Location::out_of_bounds;
      found.memory = m;
      found.label = m->label_;
      found.length = m->length_;
      found.offset = bad - m->own_;
    }
    damage = true;
    m->fill_margins();
  }
  g_granted.clear();
  return damage;
}

// ---- what lies at an address --------------------------------------------------------------------

Location locate(const void* address) {
  std::lock_guard<std::mutex> lock(g_lock);
  Location result;
  Arena& arena = Arena::get();
  const bool gpu = arena.in_gpu(address);
  result.cpu_view = arena.in_cpu(address);
  if (!gpu && !result.cpu_view) return result;
  const char* at = static_cast<const char*>(address);
  const size_t offset = at - (gpu ? arena.gpu() : arena.cpu());
  const size_t gap = Arena::kGapPages * page_size();

  auto next = g_blocks.upper_bound(offset);  // the first block that begins behind the address
  Memory* m = nullptr;
  size_t beyond = 0;
  if (next != g_blocks.begin()) {
    Memory* before = std::prev(next)->second;
    const size_t end = before->block_ + before->block_pages_ * page_size();
    if (offset < end + gap) {
      m = before;
      beyond = offset < end ? 0 : offset - end;
    }
  }
  // In a gap the nearer neighbour is to blame.
  if (next != g_blocks.end() && next->first - offset <= gap &&
      (!m || beyond > next->first - offset)) {
    m = next->second;
  }
  if (!m) {
    result.where = Location::unowned;
    return result;
  }
  result.memory = m;
  result.label = m->label_;
  result.length = m->length_;
  result.offset = at - (gpu ? m->gpu_ : m->cpu_);
  result.released = m->released_;
  result.readable = m->protection_ != PROT_NONE;
  const bool inside = result.offset >= 0 && result.offset < static_cast<long>(m->length_);
  result.where = inside ? Location::inside : Location::out_of_bounds;
  return result;
}

// ---- hiding the cpu view ------------------------------------------------------------------------

static std::atomic<bool> g_hidden{false};

void HiddenContents::hide() {
  g_hidden = true;
  Arena::get().protect_cpu(PROT_NONE);
}

void HiddenContents::show() {
  Arena::get().protect_cpu(PROT_READ | PROT_WRITE);
  EarlyAccess::protect_again();
  g_hidden = false;
}

bool HiddenContents::wait_for(const void* address) {
  if (!g_hidden || !Arena::get().in_cpu(address)) return false;
  while (g_hidden) usleep(20);
  return true;
}

size_t trim() {
  std::lock_guard<std::mutex> lock(g_lock);
  wake_all();
  return Arena::get().trim();
}

}  // namespace softmetal
