// The norm of a row in integers: its largest exponent, its square sum, its exponent.
#include "elements.cuh"

// The smallest e with |part| < 2^e, as frexp gives it, from the bits of a double above 0.
__device__ __forceinline__ int32 exponent_of(uint64 bits) {
  int32 field = (int32)(bits >> 52);
  if (field == 0x7FF) return bits << 12 == 0 ? NONFINITE_ROW : NAN_ROW;
  if (field == 0) return 64 - __clzll((int64)bits) - 1074;  // subnormal: bits 2^-1074
  return field - 1022;
}

// ceil(|t| 2^shift) from the bits of |t|, for results below 2^32; in integers, so that
// no rounding is asked for and nothing underflows.
__device__ __forceinline__ uint32 ceil_scaled(uint64 bits, int32 shift) {
  int32 field = (int32)(bits >> 52);
  uint64 mantissa = bits & 0x000FFFFFFFFFFFFFull;
  if (field != 0) mantissa |= 0x0010000000000000ull;
  // |t| = mantissa 2^(max(field, 1) - 1075)
  int32 right = 1075 - (field != 0 ? field : 1) - shift;
  if (right <= 0) return (uint32)(mantissa << -right);
  if (right > 63) return mantissa != 0;
  // mantissa < 2^53, the mask below 2^63: no overflow.
  return (uint32)((mantissa + ((1ull << right) - 1)) >> right);
}

// The largest magnitude's bits of `largest` and of the parts of an element.
__device__ __forceinline__ Bits larger_bits(const Element& element, Bits largest) {
#pragma unroll
  for (int32 part = 0; part < PARTS; ++part) {
    Bits own = magnitude_bits(element.part[part]);
    largest = own > largest ? own : largest;
  }
  return largest;
}

// The sum of ceil(|part| 2^shift)^2 over the parts, each below 2^20 or equal.
__device__ __forceinline__ uint64 square_of(const Element& element, int32 shift) {
  uint64 total = 0;
#pragma unroll
  for (int32 part = 0; part < PARTS; ++part) {
    uint64 own = widen_bits(magnitude_bits(element.part[part]));
    uint32 scaled = ceil_scaled(own, shift);
    total += (uint64)scaled * scaled;
  }
  return total;
}

// A magnitude from the sum of its parts' squares, at most 2^41, as Engine.row_sums has it:
// max(0, isqrt(square) - 2). The root of float32 is off by less than 1, whatever the chip.
__device__ __forceinline__ uint32 magnitude_of(uint64 square) {
  float near = __ull2float_rn(square);
  uint32 root = square == 0 ? 0 : (uint32)__fmaf_ieee_rn(near, rsqrtf(near), 0.0f);
  if ((uint64)root * root > square) --root;
  if ((uint64)(root + 1) * (root + 1) <= square) ++root;
  return root > 2 ? root - 2 : 0;
}

// ScalingRule.exponent: of a row's largest exponent and square sum.
__device__ __forceinline__ int32 choose_exponent(int32 e, int64 sum, int32 power,
                                                 uint64 leading, int32 norm_bits) {
  if (e >= NONFINITE_ROW) return e;
  if (e == ZERO_ROW) return 0;
  // sum >= 1: the largest entry counts at least 1.
  int32 a = (63 - __clzll(sum)) >> 1;
  bool fits = (uint64)sum << (2 * (31 - a)) <= leading;
  return power - a - (fits ? 0 : 1) + norm_bits - e;
}
