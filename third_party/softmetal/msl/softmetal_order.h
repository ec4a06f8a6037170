// In which order things run that a GPU may run in any order. Shared by the host and by kernel
// libraries, so no system header.
#pragma once

enum sm_order { SM_FORWARD, SM_REVERSE, SM_SHUFFLED };

namespace softmetal {

// Bits of x and seed, mixed.
inline unsigned mixed(unsigned x, unsigned long seed) {
  unsigned long h = (x + seed * 0x9e3779b97f4a7c15ul) * 0xbf58476d1ce4e5b9ul;
  return unsigned(h ^ (h >> 29)) * 0x85ebca6bu >> 8;
}

// The n-th number of a permutation of [0, count) that the seed chooses: a Feistel network over the
// next power of four, walked until it meets a number below count.
inline unsigned long shuffled(unsigned long n, unsigned long count, unsigned long seed) {
  unsigned half = 1;
  while (half < 32 && count > 1ul << 2 * half) ++half;
  const unsigned mask = unsigned((1ul << half) - 1);
  do {
    unsigned left = unsigned(n >> half), right = unsigned(n) & mask;
    for (unsigned round = 0; round < 4; ++round) {
      const unsigned next = left ^ (mixed(right, seed + round) & mask);
      left = right;
      right = next;
    }
    n = (unsigned long)left << half | right;
  } while (n >= count);
  return n;
}

// The n-th of `count` things.
inline unsigned long in_order(int order, unsigned long n, unsigned long count, unsigned long seed) {
  if (order == SM_SHUFFLED) return shuffled(n, count, seed);
  return order == SM_REVERSE ? count - 1 - n : n;
}

}  // namespace softmetal
