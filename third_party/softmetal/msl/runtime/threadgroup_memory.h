// Threadgroup memory. Its contents are undefined when a threadgroup starts, so they are poisoned.
#pragma once

#include "scheduler.h"

namespace softmetal {

constexpr uint round_up(uint bytes, uint to) {
  return (bytes + to - 1) / to * to;
}

// NaN in every second threadgroup and 3.4e38 in the others, so that neither a sum nor a maximum
// hides what was never written.
inline void start_threadgroup_memory(Group& g) {
  const sm_dispatch& d = *g.dispatch;
  ++g.serial;
  uint3 at = g.positions.group;
  g.poison = (at.x + at.y + at.z) % 2 ? 0x7f : 0xff;
  g.argument_bytes = g.variable_bytes = 0;
  for (int i = 0; i < SM_MAX_BUFFERS; ++i) {
    g.argument_offset[i] = g.argument_bytes;
    g.argument_bytes += round_up(d.tg_len[i], 16);
  }
  uint used = g.argument_bytes + d.kernel->static_threadgroup_memory;
  if (used == 0) return;
  g.memory = d.threadgroup_memory();
  memset(g.memory, g.poison, used < SM_MAX_THREADGROUP_MEMORY ? used : SM_MAX_THREADGROUP_MEMORY);
}

// Where the variables of a kernel lie: one after the other, as the first thread meets them.
__attribute__((noinline)) static char* place_variable(Group& g, uint size) {
  uint at = g.argument_bytes + g.variable_bytes;
  g.variable_bytes += round_up(size, 16);
  if (at + size > SM_MAX_THREADGROUP_MEMORY) {
    fail(g, Message() << "threadgroup memory: the variables of the kernel and its arguments need "
                      << at + size << " bytes, the limit is " << uint(SM_MAX_THREADGROUP_MEMORY));
  }
  return g.memory + at;
}

// `threadgroup T name;` number `id` of the source file.
template <class T, int id>
T& threadgroup_variable() {
  static thread_local struct {
    ulong serial;
    char* address;
  } place;
  Group& g = *current_group;
  if (place.serial != g.serial) {
    place.serial = g.serial;
    place.address = place_variable(g, sizeof(T));
  }
  return *(T*)place.address;
}

// Bytes of a kernel's variables, summed at compile time.
template <class T>
constexpr uint variable_size() {
  return round_up(sizeof(T), 16);
}

}  // namespace softmetal
