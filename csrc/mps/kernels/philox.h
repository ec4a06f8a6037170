// Counter-based random numbers: the same (key, counter) gives the same bits on every device,
// whatever the order of threads. Philox 4x32-10: Salmon, Moraes, Dror and Shaw, 2011.
#pragma once

#if defined(__METAL_VERSION__)
#define MPS_DS_MULHI(a, b) metal::mulhi(a, b)
#else
#include <cstdint>
#define MPS_DS_MULHI(a, b) static_cast<uint32_t>(static_cast<uint64_t>(a) * (b) >> 32)
#endif
#include "float_pair.h"

struct PhiloxBits {
  uint32_t words[4];
};

MPS_DS_INLINE PhiloxBits philox(PhiloxBits counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint32_t high0 = MPS_DS_MULHI(0xd2511f53u, counter.words[0]);
    const uint32_t high1 = MPS_DS_MULHI(0xcd9e8d57u, counter.words[2]);
    const uint32_t low0 = 0xd2511f53u * counter.words[0];
    const uint32_t low1 = 0xcd9e8d57u * counter.words[2];
    counter = {{high1 ^ counter.words[1] ^ key0, low1, high0 ^ counter.words[3] ^ key1, low0}};
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
  return counter;
}

// For stochastic rounding: 8 x 16 bits, for elements 8 * block to 8 * block + 7 of a param in one
// step.
MPS_DS_INLINE PhiloxBits rounding_bits(uint64_t seed, uint32_t row, uint32_t step, uint64_t block) {
  const PhiloxBits counter = {
      {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), row, step}};
  return philox(counter, static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
}

// `lane`: the element modulo 8.
MPS_DS_INLINE uint32_t rounding_lane(PhiloxBits bits, uint32_t lane) {
  return bits.words[lane >> 1] >> (16u * (lane & 1u)) & 0xffffu;
}

// x as bfloat16: away from zero with the probability that nearness gives, decided by 16 random
// bits. What is not finite is left to the store.
MPS_DS_INLINE float round_at_random(float x, uint32_t random) {
  const uint32_t bits = MPS_DS_BITS(x);
  if ((bits & 0x7f800000u) == 0x7f800000u) return x;
  return MPS_DS_FLOAT((bits + random) & 0xffff0000u);
}
