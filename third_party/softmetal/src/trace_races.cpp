// Words for races.
#include "symbolize.h"
#include "tracer.h"

namespace softmetal::tracing {
namespace {

std::string position(const uint32_t (&at)[3]) {
  return "(" + std::to_string(at[0]) + ", " + std::to_string(at[1]) + ", " + std::to_string(at[2]) +
         ")";
}

std::string words(const Race::Access& a) {
  std::string text = a.atomic ? "atomic " : "";
  text += a.write ? "write" : "read";
  text += " by thread " + position(a.thread) + " of threadgroup " + position(a.threadgroup);
  return a.line.empty() ? text : text + " at " + a.line;
}

}  // namespace

Race::Access Tracer::describe(const Record& record) const {
  const Ran& dispatch = ran(record);
  const uint32_t index = record.group - dispatch.first_group;
  Race::Access a;
  a.kernel = dispatch.kernel;
  a.write = record.kind != SM_READ && record.kind != SM_ATOMIC_READ;
  a.atomic = record.kind != SM_READ && record.kind != SM_WRITE;
  a.line = source_line(dispatch.code + record.pc);
  uint32_t group = index, thread = record.thread;
  for (int i = 0; i < 3; ++i) {
    a.threadgroup[i] = group % dispatch.groups[i];
    group /= dispatch.groups[i];
    // The last threadgroup of a non-uniform grid is smaller.
    const size_t begin = a.threadgroup[i] * dispatch.threads[i];
    const size_t size = std::min(dispatch.threads[i], dispatch.grid[i] - begin);
    a.thread[i] = thread % size;
    thread /= size;
  }
  return a;
}

Race Tracer::describe(const Pending& pending) const {
  Race race;
  race.memory = pending.memory;
  race.offset = pending.offset;
  race.first = describe(pending.first);
  race.second = describe(pending.second);
  const bool one_dispatch = &ran(pending.first) == &ran(pending.second);
  const bool one_group = pending.first.group == pending.second.group;
  std::string kernels = "kernel '" + race.first.kernel + "'";
  if (!one_dispatch) kernels += " and then kernel '" + race.second.kernel + "'";
  race.text = kernels + ": data race at byte offset " + std::to_string(race.offset) + " of " +
              race.memory + ": " + words(race.first) + ", then " + words(race.second) + "; ";
  if (!one_dispatch) {
    race.text += "no memoryBarrier of the concurrent encoder that covers it is between them";
  } else if (!one_group) {
    race.text += "nothing orders the threadgroups of a dispatch, relaxed atomics do not either";
  } else {
    race.text += std::string("no barrier with mem_flags::") +
                 (pending.is_threadgroup ? "mem_threadgroup" : "mem_device") + " is between them";
  }
  if (race.first.atomic != race.second.atomic) race.text += " (only one of them is atomic)";
  return race;
}

}  // namespace softmetal::tracing
