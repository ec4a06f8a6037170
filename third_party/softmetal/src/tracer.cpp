#include "tracer.h"

#include <signal.h>

#include <algorithm>

#include "arena.h"
#include "failure_text.h"
#include "trace_report.h"

namespace softmetal::tracing {
namespace {

constexpr size_t kMostRaces = 50;                        // described of one encoder
constexpr unsigned kMemDevice = 1, kMemThreadgroup = 2;  // metal::mem_flags

bool is_write(int kind) {
  return kind != SM_READ && kind != SM_ATOMIC_READ;
}
bool is_read(int kind) {
  return kind != SM_WRITE && kind != SM_ATOMIC_WRITE;
}

}  // namespace

// ---- a dispatch ---------------------------------------------------------------------------------

Tracer::Tracer() : sm_tracer{} {
  access = [](sm_tracer* self, const sm_access* a) {
    return int(static_cast<Tracer*>(self)->enter(*a));
  };
  sm_tracer::barrier = [](sm_tracer* self, unsigned flags) {
    auto* tracer = static_cast<Tracer*>(self);
    if (flags & kMemDevice) tracer->device_.barriers.threadgroup();
    if (flags & kMemThreadgroup) tracer->threadgroup_.barriers.threadgroup();
  };
  simdgroup_barrier = [](sm_tracer* self, unsigned simdgroup, unsigned lanes, unsigned flags) {
    auto* tracer = static_cast<Tracer*>(self);
    if (flags & kMemDevice) tracer->device_.barriers.simdgroup(simdgroup, lanes);
    if (flags & kMemThreadgroup) tracer->threadgroup_.barriers.simdgroup(simdgroup, lanes);
  };
  variable = [](sm_tracer* self, const char* name, const char* address, unsigned bytes) {
    static_cast<Tracer*>(self)->variables_.push_back({address, address + bytes, name});
  };
  device_begin = Arena::get().gpu();
  device_bytes = Arena::get().size();
}

void Tracer::barrier() {
  device_.forget();
  ran_.clear();
  groups_ = 0;
}

void Tracer::barrier(const std::vector<std::shared_ptr<Memory>>& named) {
  for (const auto& memory : named) {
    device_.shadow.clear(memory->gpu(), memory->gpu() + memory->length());
  }
}

void Tracer::start(const Dispatch& dispatch, const sm_dispatch& abi,
                   const std::vector<Access>& accesses, char* threadgroup_memory) {
  dispatch_ = &dispatch;
  threadgroup_begin = threadgroup_memory;
  threadgroup_bytes = SM_THREADGROUP_ROOM;
  refusal_.reset();
  threadgroup_traffic_.clear();
  ran_.push_back({groups_,
                  dispatch.function.kernel->name,
                  dispatch.function.library->code().begin,
                  dispatch.grid,
                  dispatch.threadgroup,
                  {abi.groups[0], abi.groups[1], abi.groups[2]}});

  buffers_.clear();
  last_buffer_ = 0;
  has_other_memory = 0;
  for (const Access& a : accesses) {
    const Memory& m = *a.memory;
    TracedBuffer traced;
    traced.label = m.label();
    traced.address = reinterpret_cast<uint64_t>(m.gpu());
    traced.length = m.length();
    buffers_.push_back({m.gpu(), m.gpu() + m.length(), a.memory, traced});
    if (!Arena::get().in_gpu(m.gpu())) has_other_memory = 1;
  }
  std::sort(buffers_.begin(), buffers_.end(),
            [](const Buffer& a, const Buffer& b) { return a.begin < b.begin; });
  buffers_.erase(std::unique(buffers_.begin(), buffers_.end(),
                             [](const Buffer& a, const Buffer& b) { return a.begin == b.begin; }),
                 buffers_.end());
  for (const Dispatch::Argument& argument : dispatch.buffers) {
    if (!argument.binding.is_set()) continue;
    Buffer* buffer =
        find_buffer(static_cast<const char*>(abi.buffers[argument.declaration->index]));
    if (!buffer || !buffer->traced.argument.empty()) continue;
    buffer->traced.argument = argument.declaration->name;
    buffer->traced.set_bytes = !argument.binding.memory;
  }
}

void Tracer::start_group(uint64_t index) {
  group_ = groups_ + static_cast<uint32_t>(index);
  device_.barriers.start_group();
  threadgroup_.barriers.start_group();
  threadgroup_.forget();
  variables_.clear();
}

// ---- an access ----------------------------------------------------------------------------------

bool Tracer::enter(const sm_access& a) {
  const size_t in_threadgroup = a.address - threadgroup_begin;
  return in_threadgroup < threadgroup_bytes ? enter_threadgroup(a) : enter_device(a);
}

bool Tracer::enter_device(const sm_access& a) {
  Buffer* buffer = find_buffer(a.address);
  if (!buffer) return !Arena::get().in_gpu(a.address) || refuse(a, a.address, "");
  if (a.address + a.bytes > buffer->end) return refuse(a, buffer->end, "");
  count(buffer->traced.traffic, a.kind, a.bytes);
  if (a.kind == SM_READ && a.bytes >= sizeof(void*)) look_for_addresses(*buffer, a);
  each_page(device_.shadow, a.address, a.bytes, [&](Page& page, size_t offset, size_t bytes) {
    if (is_read(a.kind)) page.read.add(offset, bytes);
    if (is_write(a.kind)) page.written.add(offset, bytes);
  });
  compare(device_, a, buffer->begin, [&] { return describe_buffer(*buffer->memory, *dispatch_); });
  return true;
}

bool Tracer::enter_threadgroup(const sm_access& a) {
  const Variable* variable = find_variable(a.address);
  if (!variable || a.address + a.bytes > variable->end) {
    std::string text = is_write(a.kind) ? "out-of-bounds write" : "out-of-bounds read";
    text += " of " + std::to_string(a.bytes) + " bytes in threadgroup memory";
    const auto distance = [&](const Variable& v) {
      return a.address < v.begin ? v.begin - a.address : a.address - v.end;
    };
    const auto nearest = std::min_element(
        variables_.begin(), variables_.end(),
        [&](const Variable& v, const Variable& w) { return distance(v) < distance(w); });
    if (nearest != variables_.end()) {
      text += ", at byte offset " + std::to_string(a.address - nearest->begin) + " of '" +
              nearest->name + "' (" + std::to_string(nearest->end - nearest->begin) + " bytes)";
    }
    return refuse(a, a.address, text);
  }
  count(threadgroup_traffic_[variable->name], a.kind, a.bytes);
  compare(threadgroup_, a, variable->begin,
          [&] { return "threadgroup memory '" + std::string(variable->name) + "'"; });
  return true;
}

template <class Name>
void Tracer::compare(Space& space, const sm_access& a, const char* origin, Name name) {
  const uint32_t number =
      space.number_of({group_, space.barriers.epoch(), space.barriers.sync(a.thread),
                       static_cast<uint32_t>(a.pc - ran_.back().code),
                       static_cast<uint16_t>(a.thread), static_cast<uint8_t>(a.kind), 0});
  const Order order(space.records, space.barriers);
  const char* at = a.address;
  each_page(space.shadow, a.address, a.bytes, [&](Page& page, size_t begin, size_t bytes) {
    page.each(begin, bytes, [&](Cell& cell, size_t offset) {
      const uint32_t other = order.enter(cell, number);
      if (!other) return;
      const Record &first = space.records[other - 1], &second = space.records[number - 1];
      const bool is_threadgroup = &space == &threadgroup_;
      if (!is_new_race(first, second, is_threadgroup)) return;
      const uint64_t where = at + (offset - begin) - origin;
      races_.push_back({first, second, name(), is_threadgroup, where});
    });
    at += bytes;
  });
}

Tracer::Buffer* Tracer::find_buffer(const char* address) {
  if (last_buffer_ < buffers_.size()) {
    Buffer& last = buffers_[last_buffer_];
    if (address >= last.begin && address < last.end) return &last;
  }
  auto next = std::upper_bound(buffers_.begin(), buffers_.end(), address,
                               [](const char* at, const Buffer& b) { return at < b.begin; });
  if (next == buffers_.begin() || address >= std::prev(next)->end) return nullptr;
  last_buffer_ = std::prev(next) - buffers_.begin();
  return &buffers_[last_buffer_];
}

const Tracer::Variable* Tracer::find_variable(const char* address) const {
  const auto found = std::find_if(variables_.begin(), variables_.end(), [&](const Variable& v) {
    return address >= v.begin && address < v.end;
  });
  return found == variables_.end() ? nullptr : &*found;
}

bool Tracer::refuse(const sm_access& a, const char* address, std::string message) {
  if (refusal_) return false;
  refusal_.emplace();
  refusal_->fault.signal = SIGSEGV;
  refusal_->fault.address = const_cast<char*>(address);
  refusal_->fault.pc = const_cast<char*>(a.pc);
  refusal_->fault.write = is_write(a.kind);
  refusal_->message = std::move(message);
  return false;
}

// A word that is read and is the address of a buffer which is declared rather than bound: that is
// how the kernel got to it.
void Tracer::look_for_addresses(const Buffer& table, const sm_access& a) {
  if (reinterpret_cast<uintptr_t>(a.address) % sizeof(char*)) return;
  const auto* words = reinterpret_cast<const char* const*>(a.address);
  const size_t last = last_buffer_;
  for (size_t i = 0; i < a.bytes / sizeof(char*); ++i) {
    if (!Arena::get().in_gpu(words[i])) continue;
    Buffer* target = find_buffer(words[i]);
    if (!target || !target->traced.argument.empty() || !target->traced.table.empty()) continue;
    target->traced.table = table.traced.argument;
    target->traced.table_offset = a.address + i * sizeof(char*) - table.begin;
  }
  last_buffer_ = last;
}

// ---- the end of a dispatch ----------------------------------------------------------------------

void Tracer::count_distinct() {
  device_.shadow.each_page([&](uintptr_t begin, Page& page) {
    for (size_t n = 0; n < Page::kBytes / Touched::kWordBytes; ++n) {
      const uint64_t read = page.read.word(n), written = page.written.word(n);
      if (!(read | written)) continue;
      const uintptr_t at = begin + n * Touched::kWordBytes + __builtin_ctzl(read | written);
      Buffer* buffer = find_buffer(reinterpret_cast<const char*>(at));
      if (!buffer) continue;
      buffer->traced.traffic.distinct_read += __builtin_popcountl(read);
      buffer->traced.traffic.distinct_written += __builtin_popcountl(written);
    }
    page.read.clear();
    page.written.clear();
  });
}

std::optional<std::string> Tracer::finish() {
  count_distinct();
  std::vector<TracedBuffer> buffers;
  for (const Buffer& b : buffers_) buffers.push_back(b.traced);
  report_dispatch(dispatch_->function.kernel->name, buffers, threadgroup_traffic_);
  const Ran& now = ran_.back();
  groups_ += now.groups[0] * now.groups[1] * now.groups[2];

  std::optional<std::string> first;
  for (const Pending& pending : races_) {
    Race race = describe(pending);
    if (!first) first = race.text;
    report_race(std::move(race));
  }
  report_races_left_out(races_left_out_);
  races_.clear();
  races_left_out_ = 0;
  buffers_.clear();
  dispatch_ = nullptr;
  return first;
}

// ---- races --------------------------------------------------------------------------------------

const Tracer::Ran& Tracer::ran(const Record& record) const {
  const auto next =
      std::upper_bound(ran_.begin(), ran_.end(), record.group,
                       [](uint32_t group, const Ran& r) { return group < r.first_group; });
  return *std::prev(next);
}

// One of each pair of places in the source is enough.
bool Tracer::is_new_race(const Record& first, const Record& second, bool is_threadgroup) {
  const auto place = [&](const Record& r) {
    return reinterpret_cast<uint64_t>(ran(r).code) + r.pc;
  };
  const uint64_t a = place(first), b = place(second);
  if (!seen_races_.insert({std::min(a, b), std::max(a, b), is_threadgroup}).second) return false;
  if (races_.size() < kMostRaces) return true;
  ++races_left_out_;
  return false;
}

}  // namespace softmetal::tracing
