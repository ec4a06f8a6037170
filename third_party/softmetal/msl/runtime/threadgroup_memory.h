// Threadgroup memory. Its contents are undefined when a threadgroup starts, so they are poisoned.
#pragma once

#include "scheduler.h"
#include "tracing.h"

namespace softmetal {

constexpr uint round_up(uint bytes, uint to) {
  return (bytes + to - 1) / to * to;
}

// NaN in every second threadgroup and 3.4e38 in the others, so that neither a sum nor a maximum
// hides what was never written.
SM_UNTRACED inline void start_threadgroup_memory(Group& g) {
  const sm_dispatch& d = *g.dispatch;
  ++g.serial;
  uint3 at = g.positions.group;
  g.poison = (at.x + at.y + at.z) % 2 ? 0x7f : 0xff;
  g.argument_bytes = g.variable_bytes = 0;
  g.gaps = threadgroup_gap;
  for (int i = 0; i < SM_MAX_BUFFERS; ++i) {
    g.argument_offset[i] = g.argument_bytes + g.gaps;
    g.argument_bytes += round_up(d.tg_len[i], 16);
    if (d.tg_len[i]) g.gaps += threadgroup_gap;
  }
  uint used = g.argument_bytes + d.kernel->static_threadgroup_memory;
  if (used == 0) return;
  g.memory = d.threadgroup_memory();
  uint limit = tracing ? SM_THREADGROUP_ROOM : SM_MAX_THREADGROUP_MEMORY;
  memset(g.memory, g.poison, tracing || used > limit ? limit : used);
  for (int i = 0; i < d.kernel->nargs; ++i) {
    const sm_arg& argument = d.kernel->args[i];
    if (argument.kind != SM_THREADGROUP_MEM || !d.tg_len[argument.index]) continue;
    trace_variable(argument.name, g.memory + g.argument_offset[argument.index],
                   d.tg_len[argument.index]);
  }
}

// Where the variables of a kernel lie: one after the other, as the first thread meets them.
__attribute__((noinline)) static char* place_variable(Group& g, const char* name, uint size) {
  uint at = g.argument_bytes + g.variable_bytes;
  g.variable_bytes += round_up(size, 16);
  if (at + size > SM_MAX_THREADGROUP_MEMORY) {
    fail(g, Message() << "threadgroup memory: the variables of the kernel and its arguments need "
                      << at + size << " bytes, the limit is " << uint(SM_MAX_THREADGROUP_MEMORY));
  }
  char* address = g.memory + g.gaps + at;
  bool room = at + g.gaps + size + 2 * threadgroup_gap <= SM_THREADGROUP_ROOM;
  if (room) g.gaps += threadgroup_gap;
  trace_variable(name, address, size);
  return address;
}

// `threadgroup T name;` number `id` of the source file.
template <class T, int id>
T& threadgroup_variable(const char* name) {
  static thread_local struct {
    ulong serial;
    char* address;
  } place;
  Group& g = *current_group;
  if (place.serial != g.serial) {
    place.serial = g.serial;
    place.address = place_variable(g, name, sizeof(T));
  }
  return *(T*)place.address;
}

// Bytes of a kernel's variables, summed at compile time.
template <class T>
constexpr uint variable_size() {
  return round_up(sizeof(T), 16);
}

}  // namespace softmetal
