// Norm pass: largest exponent, square sum and scaling exponent of each row.
//
// Macros: REAL, PARTS. The two passes over x must each move sizeof(element) rows k
// bytes; reductions are strips of registers and one atomic a thread, order-free and
// exact. Integers throughout: 8 instructions a part, whatever the device's double rate.
#include "norms.cuh"

// largest[row] = max(largest[row], exponents of its parts); filled with ZERO_ROW before.
extern "C" __global__ void __launch_bounds__(256)
largest_exponents(const REAL* x, int64 rows, int64 k, int64 row_stride, int64 k_stride,
                  int64 span, int32 across, int32* largest) {
  Strip strip = locate_strip(rows, k, span, across);
  Bits own_largest = 0;
#pragma unroll 4
  for (int64 c = strip.first; c < strip.last; c += strip.step) {
    Element element = load_element(x, strip.row * row_stride + c * k_stride);
    own_largest = larger_bits(element, own_largest);
  }
  if (own_largest != 0) {
    atomicMax(largest + strip.row, exponent_of(widen_bits(own_largest)));
  }
}

// Of an operand transposed, x having its columns for rows: the largest exponent less
// that of the row, in `others`; the largest; the largest negated one of the parts that
// are not 0, each `rows` after the one before. What is NONFINITE_ROW is left out.
extern "C" __global__ void __launch_bounds__(256)
column_exponents(const REAL* x, int64 rows, int64 k, int64 row_stride, int64 k_stride,
                 int64 span, int32 across, const int32* others, int32* extremes) {
  // Of the smallest normal number.
  const int32 least = sizeof(REAL) == 4 ? -125 : -1021;
  Strip strip = locate_strip(rows, k, span, across);
  Bits high = 0, low = ~(Bits)0;
  int32 relative = ZERO_ROW;
#pragma unroll 4
  for (int64 c = strip.first; c < strip.last; c += strip.step) {
    int32 other = others[c];
    if (other == NONFINITE_ROW) continue;
    other = other > least ? other : least;
    Element element = load_element(x, strip.row * row_stride + c * k_stride);
#pragma unroll
    for (int32 part = 0; part < PARTS; ++part) {
      Bits own = magnitude_bits(element.part[part]);
      if (own != 0) {
        int32 e = exponent_of(widen_bits(own));
        e = (e > least ? e : least) - other;
        relative = e > relative ? e : relative;
      }
      high = own > high ? own : high;
      own -= 1;  // 0 becomes the largest number there is
      low = own < low ? own : low;
    }
  }
  if (high != 0) {
    atomicMax(extremes + strip.row, relative);
    atomicMax(extremes + rows + strip.row, exponent_of(widen_bits(high)));
    low += 1;
    atomicMax(extremes + 2 * rows + strip.row, -exponent_of(widen_bits(low)));
  }
}

// sums[row] += sum(ceil(|part| 2^(norm_bits - e))^2), modulo 2^64 and below 2^63 in
// total (twom_dist.moduli.norm_bits); zeroed before, nothing added to sentinel rows.
extern "C" __global__ void __launch_bounds__(256)
square_sums(const REAL* x, int64 rows, int64 k, int64 row_stride, int64 k_stride,
            int64 span, int32 across, const int32* largest, int32 norm_bits,
            uint64* sums) {
  Strip strip = locate_strip(rows, k, span, across);
  if (strip.first >= strip.last) return;
  int32 e = largest[strip.row];
  if (is_sentinel(e)) return;
  uint64 total = 0;
#pragma unroll 4
  for (int64 c = strip.first; c < strip.last; c += strip.step) {
    Element element = load_element(x, strip.row * row_stride + c * k_stride);
    total += square_of(element, norm_bits - e);
  }
  if (total != 0) atomicAdd(sums + strip.row, total);
}

// out[row * k + c] = the leading half of the float32 that is nearest to
// sqrt(re^2 + im^2) 2^-e, which is at least 2^-126 where the entry is not 0; zeros in
// sentinel rows. Grid as of scale_columns. Must move sizeof(element) + 2 bytes.
extern "C" __global__ void __launch_bounds__(256)
magnitudes(const REAL* x, int64 rows, int64 k, int64 row_stride, int64 k_stride,
           const int32* largest, uint16* out) {
  int64 c = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= k) return;
  int64 row = (int64)blockIdx.y * blockDim.y + threadIdx.y;
  for (; row < rows; row += (int64)gridDim.y * blockDim.y) {
    int32 e = largest[row];
    uint32 found = 0;
    if (!is_sentinel(e)) {
      // Two factors: one may leave the numbers.
      double one = power_of_two(-e >> 1), two = power_of_two(-e - (-e >> 1));
      Element element = load_element(x, row * row_stride + c * k_stride);
      double square = 0;
      bool some = false;
#pragma unroll
      for (int32 part = 0; part < PARTS; ++part) {
        some |= magnitude_bits(element.part[part]) != 0;
        double t = __dmul_rn(__dmul_rn(widen(element.part[part]), one), two);
        square = __dadd_rn(square, __dmul_rn(t, t));
      }
      double root = __dsqrt_rn(square);
      float value;
      narrow(root > power_of_two(-126) ? root : power_of_two(-126), value);
      if (some) found = __float_as_uint(value) >> 16;
    }
    out[row * k + c] = (uint16)found;
  }
}

// exponents[row] = ScalingRule.exponent(largest[row], sums[row]); 16 bytes a row.
extern "C" __global__ void __launch_bounds__(256)
choose_exponents(const int32* largest, const int64* sums, int64 rows, int32 power,
                 uint64 leading, int32 norm_bits, int32* exponents) {
  int64 row = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  exponents[row] = choose_exponent(largest[row], sums[row], power, leading, norm_bits);
}
