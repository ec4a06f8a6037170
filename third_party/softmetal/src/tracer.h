// Watches the dispatches of one encoder while they run in a tracing build: counts what they move,
// and finds races and accesses out of bounds. One worker at a time.
#pragma once
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "execute.h"
#include "faults.h"
#include "softmetal/softmetal.h"
#include "softmetal_abi.h"
#include "trace_space.h"

namespace softmetal::tracing {

class Tracer : public sm_tracer {
 public:
  Tracer();

  // What came before is ordered before what follows: all of it, or only in these buffers.
  void barrier();
  void barrier(const std::vector<std::shared_ptr<Memory>>& named);

  // The dispatch in its tracing build. `accesses`: what it may touch.
  void start(const Dispatch& dispatch, const sm_dispatch& abi, const std::vector<Access>& accesses,
             char* threadgroup_memory);
  void start_group(uint64_t index);
  // Reports; the first race in words, if there was one.
  std::optional<std::string> finish();

  // Why the kernel was told to end: an access out of bounds of device memory, or words.
  struct Refusal {
    Fault fault;
    std::string message;
  };
  const std::optional<Refusal>& refusal() const { return refusal_; }

 private:
  struct Buffer {
    const char *begin, *end;
    std::shared_ptr<Memory> memory;
    TracedBuffer traced;
  };
  struct Variable {
    const char *begin, *end;
    const char* name;
  };
  // Of every dispatch that is compared, to describe an access of it later.
  struct Ran {
    uint32_t first_group;
    std::string kernel;
    const char* code;
    std::array<size_t, 3> grid, threads;
    std::array<unsigned, 3> groups;
  };
  struct Pending {
    Record first, second;
    std::string memory;
    bool is_threadgroup;
    uint64_t offset;
  };

  bool enter(const sm_access& access);
  bool enter_device(const sm_access& access);
  bool enter_threadgroup(const sm_access& access);
  Buffer* find_buffer(const char* address);
  const Variable* find_variable(const char* address) const;
  bool refuse(const sm_access& access, const char* address, std::string message);
  void look_for_addresses(const Buffer& table, const sm_access& access);
  template <class Name>
  void compare(Space& space, const sm_access& access, const char* origin, Name name);
  bool is_new_race(const Record& first, const Record& second, bool is_threadgroup);
  void count_distinct();
  const Ran& ran(const Record& record) const;
  Race::Access describe(const Record& record) const;
  Race describe(const Pending& pending) const;

  const Dispatch* dispatch_ = nullptr;
  std::vector<Buffer> buffers_;  // by address
  size_t last_buffer_ = 0;
  std::vector<Variable> variables_;
  std::map<std::string, Traffic> threadgroup_traffic_;
  Space device_, threadgroup_;
  std::vector<Ran> ran_;
  uint32_t groups_ = 0;  // of all dispatches so far
  uint32_t group_ = 0;   // the one that runs
  std::set<std::array<uint64_t, 3>> seen_races_;
  std::vector<Pending> races_;
  uint64_t races_left_out_ = 0;
  std::optional<Refusal> refusal_;
};

}  // namespace softmetal::tracing
