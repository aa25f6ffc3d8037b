// Norm pass: largest exponent, square sum and scaling exponent of each row, and extreme
// exponents of each column; of two operands at once, of stacks one matrix for each z.
//
// Macros: REAL, PARTS, SHIFTED. The two passes over x must each move sizeof(element) rows k
// bytes; reductions are strips of registers and one atomic a thread, order-free and
// exact. Integers throughout: 8 instructions a part, whatever the device's double rate.
#include "norms.cuh"

// The operands are x and y; without y its sizes are 0 and its span is 1. What is written
// is contiguous: largest[z, row], sums[kind, z, row], extremes[z, kind, column].

// largest[row] = max(largest[row], exponents of its parts), filled with ZERO_ROW before;
// sums[i, row] = 0, i < kinds, for the kernel that adds to them, unless they are null.
extern "C" __global__ void __launch_bounds__(256)
largest_exponents(const REAL* x, int64 x_rows, int64 x_k, int64 x_row_stride,
                  int64 x_k_stride, int64 x_span, int32 x_across,
                  int64 x_stack_stride, const REAL* y, int64 y_rows, int64 y_k,
                  int64 y_row_stride, int64 y_k_stride, int64 y_span, int32 y_across,
                  int64 y_stack_stride, const int32* x_shifts,
                  const int32* y_shifts, int32* x_largest, int32* y_largest,
                  int32 kinds, uint64* x_sums, uint64* y_sums) {
  Operand own = {x, x_rows, x_k, x_row_stride, x_k_stride, x_span, x_across};
  uint32 block = blockIdx.x;
  if (!claim_block(block, own)) {
    own = {y, y_rows, y_k, y_row_stride, y_k_stride, y_span, y_across};
    x_stack_stride = y_stack_stride;
    x_shifts = y_shifts;
    x_largest = y_largest;
    x_sums = y_sums;
  }
  own.x += PARTS * (blockIdx.z * x_stack_stride);
  Strip strip = locate_strip(own, block);
  int64 row = blockIdx.z * own.rows + strip.row, count = gridDim.z * own.rows;
  if (strip.leads && x_sums != nullptr) {
    for (int32 i = 0; i < kinds; ++i) x_sums[i * count + row] = 0;
  }
  Bits own_largest = 0;
#pragma unroll 4
  for (int64 c = strip.first; c < strip.last; c += strip.step) {
    Element element = shift_element(load_element(own, strip, c), x_shifts, c);
    own_largest = larger_bits(element, own_largest);
  }
  if (own_largest != 0) {
    atomicMax(x_largest + row, exponent_of(widen_bits(own_largest)));
  }
}

// sums[0, row] += sum(ceil(|part| 2^(norm_bits - e))^2), modulo 2^64 and below 2^63 in
// total (twom_dist.moduli.norm_bits); if there are two kinds, sums[1, row] += magnitudes
// of the entries in these units. Zeroed before, nothing added to sentinel rows.
template <int32 KINDS>
__device__ __forceinline__ void add_squares(const Operand& own, const Strip& strip,
                                            const int32* shifts, const int32* largest,
                                            int32 norm_bits, uint64* sums) {
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
    if (KINDS == 2) magnitudes += magnitude_of(square);
  }
  if (squares != 0) atomicAdd(sums + row, squares);
  if (magnitudes != 0) atomicAdd(sums + gridDim.z * own.rows + row, (uint64)magnitudes);
}

// For each column, a row of the transposed operand: the largest exponent less that of the
// entry's row, in `others`; the largest; the largest negated one; of the parts that are
// not 0, each own.rows after the one before. Rows that are not finite are left out.
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

// Square sums of the rows of x and y, and extremes of their columns, which are filled
// with ZERO_ROW before; either may be null. Blocks as of these four, one after the other.
extern "C" __global__ void __launch_bounds__(256)
sums_and_extremes(const REAL* x, int64 x_rows, int64 x_k, int64 x_row_stride,
                  int64 x_k_stride, int64 x_span, int32 x_across,
                  int64 x_stack_stride, const REAL* y, int64 y_rows, int64 y_k,
                  int64 y_row_stride, int64 y_k_stride, int64 y_span, int32 y_across,
                  int64 y_stack_stride, int64 x_column_span,
                  int64 y_column_span, const int32* x_shifts, const int32* y_shifts,
                  const int32* x_largest, const int32* y_largest,
                  int32 norm_bits, int32 kinds, uint64* x_sums, uint64* y_sums,
                  int32* x_extremes, int32* y_extremes) {
  x += PARTS * (blockIdx.z * x_stack_stride);
  y += PARTS * (blockIdx.z * y_stack_stride);
  Operand x_own = {x, x_rows, x_k, x_row_stride, x_k_stride, x_span, x_across};
  Operand y_own = {y, y_rows, y_k, y_row_stride, y_k_stride, y_span, y_across};
  uint32 block = blockIdx.x;
  bool sums = x_sums != nullptr, first = sums && claim_block(block, x_own);
  if (first || (sums && claim_block(block, y_own))) {
    Operand own = first ? x_own : y_own;
    Strip strip = locate_strip(own, block);
    const int32* shifts = first ? x_shifts : y_shifts;
    const int32* largest = first ? x_largest : y_largest;
    uint64* out = first ? x_sums : y_sums;
    if (kinds == 2) {
      add_squares<2>(own, strip, shifts, largest, norm_bits, out);
    } else {
      add_squares<1>(own, strip, shifts, largest, norm_bits, out);
    }
    return;
  }
  x_own = {x, x_k, x_rows, x_k_stride, x_row_stride, x_column_span, !x_across};
  y_own = {y, y_k, y_rows, y_k_stride, y_row_stride, y_column_span, !y_across};
  first = claim_block(block, x_own);
  Operand own = first ? x_own : y_own;
  find_extremes(own, locate_strip(own, block), first ? x_largest : y_largest,
                first ? x_extremes : y_extremes);
}

// sums[row] += sum(ceil(|y - rint(y)| unit)^2), y = |part| 2^exponents[row], unit <= 2^20;
// zeroed before, nothing added to rows that are not finite. Without exponents the rule
// chooses them by largest and squares, as choose_exponents does. Of the matrices `places`,
// or of all; sums are contiguous. Blocks of x, then of y, as of largest_exponents.
extern "C" __global__ void __launch_bounds__(256)
error_sums(const REAL* x, int64 x_rows, int64 x_k, int64 x_row_stride,
           int64 x_k_stride, int64 x_span, int32 x_across, int64 x_stack_stride,
           const REAL* y, int64 y_rows, int64 y_k, int64 y_row_stride,
           int64 y_k_stride, int64 y_span, int32 y_across, int64 y_stack_stride,
           const int32* places, const int32* x_shifts, const int32* y_shifts,
           const int32* x_exponents, const int32* y_exponents,
           const int32* x_largest, const int32* y_largest, const int64* x_squares,
           const int64* y_squares, int32 power, uint64 leading, int32 norm_bits,
           double unit, uint64* x_sums, uint64* y_sums) {
  Operand own = {x, x_rows, x_k, x_row_stride, x_k_stride, x_span, x_across};
  uint32 block = blockIdx.x;
  if (!claim_block(block, own)) {
    own = {y, y_rows, y_k, y_row_stride, y_k_stride, y_span, y_across};
    x_stack_stride = y_stack_stride;
    x_shifts = y_shifts;
    x_exponents = y_exponents;
    x_largest = y_largest;
    x_squares = y_squares;
    x_sums = y_sums;
  }
  Strip strip = locate_strip(own, block);
  if (strip.first >= strip.last) return;
  int64 matrix = places == nullptr ? blockIdx.z : places[blockIdx.z];
  own.x += PARTS * (matrix * x_stack_stride);
  int64 row = matrix * own.rows + strip.row;
  int32 e = x_exponents != nullptr
                ? x_exponents[row]
                : choose_exponent(x_largest[row], x_squares[row], power, leading,
                                  norm_bits);
  if (is_sentinel(e)) return;
  double one = power_of_two(e >> 1), two = power_of_two(e - (e >> 1));
  uint64 total = 0;
#pragma unroll 2
  for (int64 c = strip.first; c < strip.last; c += strip.step) {
    Element element = shift_element(load_element(own, strip, c), x_shifts, c);
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
  if (total != 0) atomicAdd(x_sums + blockIdx.z * own.rows + strip.row, total);
}

// out[row * k + c] = the octaves of the largest part of an entry below the largest
// exponent of its row: 126 for those beyond 62, 127 for zeros and in sentinel
// rows. Grid as of scale_and_add, z over matrices. Must move sizeof(element) + 1 bytes.
extern "C" __global__ void __launch_bounds__(256)
octaves(const REAL* x, int64 rows, int64 k, int64 row_stride, int64 k_stride,
        int64 stack_stride, const int32* largest, const int32* shifts, uint8* out) {
  x += PARTS * (blockIdx.z * stack_stride);
  largest += blockIdx.z * rows;
  out += blockIdx.z * rows * k;
  int64 c = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= k) return;
  int64 row = (int64)blockIdx.y * blockDim.y + threadIdx.y;
  for (; row < rows; row += (int64)gridDim.y * blockDim.y) {
    int32 e = largest[row];
    uint8 found = 127;
    Element element = load_element(x, row * row_stride + c * k_stride);
    Bits bits = larger_bits(shift_element(element, shifts, c), 0);
    if (bits != 0 && !is_sentinel(e)) {
      int32 below = e - exponent_of(widen_bits(bits));
      found = (uint8)(below > 62 ? 126 : below);
    }
    out[row * k + c] = found;
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
