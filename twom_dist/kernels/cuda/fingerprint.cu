// Fingerprint of a block, which tells whether it was refilled since it was encoded.
//
// Macros: REAL, PARTS. Must move sizeof(element) bytes an element. It is a sum modulo
// 2^64, so neither the order of threads nor the layout of the matrix matters.
#include "elements.cuh"

// sums[slot] += t ^ (t >> 29), t = (w + 1) odd(place), over the bits w of the parts (as
// doubles); sums are zeroed before. The odd weights tell permutations apart. The shift
// brings high bits, such as signs, down to where changes do not cancel in the sum.
// `slots`, a power of two, spreads the atomics; the sum of all slots is the
// fingerprint. Grid of the norms. Without a second bound ptxas 13 aims at 32 registers,
// and spills.
extern "C" __global__ void __launch_bounds__(256, 4)
fingerprint(Operand own, int32 slots, uint64* sums) {
  Strip strip = locate_strip(own, blockIdx.x);
  if (strip.first >= strip.last) return;
  uint64 total = 0;
#pragma unroll 4
  for (int64 c = strip.first; c < strip.last; c += strip.step) {
    Element element = load_element(own, strip, c);
    uint64 place = (uint64)(strip.row * own.k + c) * PARTS;
#pragma unroll
    for (int32 part = 0; part < PARTS; ++part) {
      uint64 bits = (uint64)__double_as_longlong(widen(element.part[part]));
      uint64 weight = 0x9E3779B97F4A7C15ull * (2 * (place + part) + 1);
      // 64-bit words: fold them first, or the high bits meet only themselves.
      uint64 mixed = ((bits ^ (bits >> 32)) + 1) * weight;
      total += mixed ^ (mixed >> 29);
    }
  }
  uint32 thread = (uint32)strip.row * 31u + (uint32)strip.first;
  atomicAdd(sums + (thread & (uint32)(slots - 1)), total);
}
