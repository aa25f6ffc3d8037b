// Magnitudes, and the cosines of their rows with the vector of ones.
#include "arithmetic.cuh"

// floor(x 2^bits), bits >= 7: x is (128 + its low 7 bits) 2^(field - 134), below 2. A
// zero has the field 0: nothing is left of it.
__device__ __forceinline__ uint32 scale_magnitude(uint32 x, int32 bits) {
  uint32 right = 127 - (x >> 7), significand = (x & 127) | 128;
  return (significand << (bits - 7)) >> (right < 31 ? right : 31);
}

// Relative errors of formulas of angles: see kernels/stack_summary.py.
#define MARGIN (1.0 / ((int64)1 << 48))

// total / sqrt(square k) (1 - MARGIN), square > 0: double operations that round each by
// itself.
__device__ __forceinline__ double find_cosine(int64 square, int64 total, int64 k) {
  double norm = __dsqrt_rn(__dmul_rn(__ll2double_rn(square), __ll2double_rn(k)));
  return __dmul_rn(__ddiv_rn(__ll2double_rn(total), norm), 1 - MARGIN);
}
