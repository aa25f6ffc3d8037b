// The norm of a row in integers: its largest exponent, its square sum, its exponent.
#include "elements.cuh"

// Octaves that are counted: see kernels/statistics.py.
#define COUNTED 25

// An operand and what is known and found of its rows and columns; any may be null.
struct Side {
  Operand own;
  const int32* shifts;
  const int32* largest;
  uint64* sums;
  int32* counts;
  int32* extremes;
};

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

// How ScalingRule chooses.
struct Rule {
  int32 power, norm_bits;
  uint64 leading;
};

// ScalingRule.exponent: of a row's largest exponent and square sum.
__device__ __forceinline__ int32 choose_exponent(int32 e, int64 sum, const Rule& rule) {
  if (e >= NONFINITE_ROW) return e;
  if (e == ZERO_ROW) return 0;
  // sum >= 1: the largest entry counts at least 1.
  int32 a = (63 - __clzll(sum)) >> 1;
  bool fits = (uint64)sum << (2 * (31 - a)) <= rule.leading;
  return rule.power - a - (fits ? 0 : 1) + rule.norm_bits - e;
}

// How many octaves the largest part of an entry, given by its bits, is below the largest
// exponent of its row: 126 for those beyond 62, 127 for zeros and in sentinel rows.
__device__ __forceinline__ int32 octave_of(Bits bits, int32 e) {
  if (bits == 0 || is_sentinel(e)) return 127;
  int32 below = e - exponent_of(widen_bits(bits));
  return below > 62 ? 126 : below;
}

// The place of the first counted octave that is not less. Counted are the first 16,
// every sixth from 21 on, 62, and all that are not 0.
__device__ __forceinline__ int32 place_of(int32 octave) {
  return octave < 16 ? octave : octave > 62 ? COUNTED - 1 : 16 + (octave - 16) / 6;
}

// sums[0, row] += sum(ceil(|part| 2^(norm_bits - e))^2), modulo 2^64 and below 2^63 in
// total (twom_dist.moduli.norm_bits); if there are two kinds, sums[1, row] +=
// magnitudes of the entries in these units. Sums are zeroed before, and nothing is
// added to sentinel rows. If there are counts, in shared memory, each entry is added to
// the count of its octave.
__device__ __forceinline__ void add_squares(const Operand& own, const Strip& strip,
                                            const int32* shifts, const int32* largest,
                                            int32 norm_bits, int32 kinds, uint64* sums,
                                            uint32* counts) {
  if (strip.first >= strip.last) return;
  int64 row = blockIdx.z * own.rows + strip.row;
  int32 e = largest[row];
  if (is_sentinel(e)) return;
  uint64 squares = 0;
  uint32 magnitudes = 0;  // a thread takes less than 2^11 elements
#pragma unroll 4
  for (int64 c = strip.first; c < strip.last; c += strip.step) {
    Element element = shift_element(load_element(own, strip, c), shifts, c);
    uint64 square = square_of(element, norm_bits - e);
    squares += square;
    if (kinds == 2) magnitudes += magnitude_of(square);
    if (counts == nullptr) continue;
    int32 octave = octave_of(larger_bits(element, 0), e);
    if (octave < 127) atomicAdd(counts + place_of(octave), 1u);
  }
  if (squares != 0) atomicAdd(sums + row, squares);
  if (magnitudes != 0) atomicAdd(sums + gridDim.z * own.rows + row, (uint64)magnitudes);
}

// For each column, which is a row of the transposed operand, find three numbers over
// the parts that are not 0: the largest exponent relative to `others`, the largest
// exponents of the entries' rows; the largest exponent; the largest negated exponent.
// Each kind lies own.rows after the one before. Rows that are not finite are left out.
__device__ __forceinline__ void find_extremes(const Operand& own, const Strip& strip,
                                              const int32* others, int32* extremes) {
  // The exponent of the smallest normal number.
  const int32 least = sizeof(REAL) == 4 ? -125 : -1021;
  others += blockIdx.z * own.k;
  extremes += blockIdx.z * 3 * own.rows;
  Bits high = 0, low = ~(Bits)0;
  int32 relative = ZERO_ROW;
#pragma unroll 4
  for (int64 c = strip.first; c < strip.last; c += strip.step) {
    int32 other = others[c];
    if (other >= NONFINITE_ROW) continue;
    other = other > least ? other : least;
    Element element = load_element(own, strip, c);
#pragma unroll
    for (int32 part = 0; part < PARTS; ++part) {
      Bits bits = magnitude_bits(element.part[part]);
      if (bits != 0) {
        int32 e = exponent_of(widen_bits(bits));
        e = (e > least ? e : least) - other;
        relative = e > relative ? e : relative;
      }
      high = bits > high ? bits : high;
      bits -= 1;  // 0 becomes the largest number there is
      low = bits < low ? bits : low;
    }
  }
  if (high != 0) {
    atomicMax(extremes + strip.row, relative);
    atomicMax(extremes + own.rows + strip.row, exponent_of(widen_bits(high)));
    low += 1;
    atomicMax(extremes + 2 * own.rows + strip.row, -exponent_of(widen_bits(low)));
  }
}

// Add the squares of what a thread's entries of a row lose when they are rounded:
// ceil(|y - rint(y)| unit)^2 with y = |part| 2^e. Nothing is added to rows that are not
// finite.
__device__ __forceinline__ void add_errors(const Operand& own, const Strip& strip,
                                           const int32* shifts, int32 e, double unit,
                                           uint64* sum) {
  if (is_sentinel(e)) return;
  double one = power_of_two(e >> 1), two = power_of_two(e - (e >> 1));
  uint64 total = 0;
#pragma unroll 2
  for (int64 c = strip.first; c < strip.last; c += strip.step) {
    Element element = shift_element(load_element(own, strip, c), shifts, c);
#pragma unroll
    for (int32 part = 0; part < PARTS; ++part) {
      double t = fabs(widen(element.part[part]));
      double scaled = __dmul_rn(__dmul_rn(t, one), two);
      double error = ceil(__dmul_rn(fabs(__dadd_rn(scaled, -rint(scaled))), unit));
      // A product that underflows to 0 stands for a ceiling of 1.
      if (scaled == 0 && magnitude_bits(element.part[part]) != 0) error = 1;
      total += (uint64)error * (uint64)error;
    }
  }
  if (total != 0) atomicAdd(sum, total);
}
