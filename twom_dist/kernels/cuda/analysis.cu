// Analysis: what decides about the moduli of a product. One pass over both operands
// finds sums and octaves of rows and extremes of columns; its last block, when all
// others are done, reduces these to a few numbers. Another pass does the same with
// rounding errors.
//
// Macros: REAL, PARTS, SHIFTED. Without y its sizes are 0 and its span is 1.
#include "norms.cuh"

// Relative errors of formulas of angles: see kernels/statistics.py.
#define MARGIN (1.0 / ((int64)1 << 48))

// The operand whose rows are the columns of another one.
__device__ __forceinline__ Operand turn(const Operand& own, int64 span) {
  return {own.x, own.k, own.rows, own.k_stride, own.row_stride, span, !own.across, 0};
}

// total / sqrt(square k) (1 - MARGIN), square > 0, without fused operations.
__device__ __forceinline__ double find_cosine(int64 square, int64 total, int64 k) {
  double norm = __dsqrt_rn(__dmul_rn(__ll2double_rn(square), __ll2double_rn(k)));
  return __dmul_rn(__ddiv_rn(__ll2double_rn(total), norm), 1 - MARGIN);
}

// Read what other blocks have added to, past this block's cache.
template <class T> __device__ __forceinline__ T read_again(const T* address) {
  return *(const volatile T*)address;
}

// The bits of the smallest cosine that a thread finds among the rows of a matrix, at
// most 1. Their totals lie `distance` beyond their squares. Numbers that are not
// negative sort as their bits do.
__device__ __forceinline__ uint64 smallest_cosine(const int64* squares,
                                                  int64 distance, int64 rows,
                                                  int64 k) {
  double smallest = 1;
  for (int64 row = threadIdx.y * 32 + threadIdx.x; row < rows; row += 256) {
    int64 square = read_again(squares + row);
    if (square == 0) continue;
    double cosine = find_cosine(square, read_again(squares + distance + row), k);
    smallest = cosine < smallest ? cosine : smallest;
  }
  return (uint64)__double_as_longlong(smallest);
}

// 2^e for e <= 0, in units of 2^-bits, rounded up.
__device__ __forceinline__ uint64 count_units(int32 e, int32 bits) {
  return (uint64)1 << (e + bits > 0 ? e + bits : 0);
}

// Whether all other blocks of a matrix are done; all threads of the block ask. `done`
// begins as the bytes of ZERO_ROW, with which the whole allocation is filled.
__device__ __forceinline__ bool is_last(uint32* done) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    last = atomicAdd(done, 1u) - (uint32)ZERO_ROW + 1 == gridDim.x;
  }
  __syncthreads();
  __threadfence();
  return last;
}

// The counts of a block, in shared memory: octaves of 32 rows or 8.
__device__ __forceinline__ void clear_counts(uint32 (&found)[32 * COUNTED]) {
  for (uint32 i = threadIdx.y * 32 + threadIdx.x; i < 32 * COUNTED; i += 256) {
    found[i] = 0;
  }
  __syncthreads();
}

// counts[row, i] += entries of the row down to each of the octaves.
__device__ __forceinline__ void add_counts(const uint32 (&found)[32 * COUNTED],
                                           const Operand& own, uint32 block,
                                           int32* counts) {
  __syncthreads();
  int32 rows = own.across ? 32 : 8;
  int64 first = (int64)(block % count_row_blocks(own)) * rows;
  for (int32 i = threadIdx.y * 32 + threadIdx.x; i < rows * COUNTED; i += 256) {
    int64 row = first + i / COUNTED;
    uint32 total = 0;
    for (int32 j = i - i % COUNTED; j <= i; ++j) total += found[j];
    if (row >= own.rows || total == 0) continue;
    row += blockIdx.z * own.rows;
    atomicAdd(counts + row * COUNTED + i % COUNTED, (int32)total);
  }
}

// cosines[side, z] = the smallest of the rows of matrix z, of both operands; sums[i, z]
// = sum(2^(2 a)), sum(2^(2 b)), sum(2^(a + b)) over the columns that are not 0, with a
// and b from extremes[z, 0, column]. One block does this. The second operand may be
// missing (no rows), and the extremes may be null.
__device__ __forceinline__ void summarise(const int64* x_squares, int64 x_rows,
                                          const int64* y_squares, int64 y_rows,
                                          const int32* x_extremes,
                                          const int32* y_extremes, int64 k, int32 bits,
                                          double* cosines, uint64* sums) {
  // By halves: atomics of 64 bits took turns, 28 us on an H100 for 1024 rows.
  __shared__ uint64 found[5][256];
  uint64 z = blockIdx.z, count = gridDim.z, thread = threadIdx.y * 32 + threadIdx.x;
  uint64 own[5] = {0, 0, 0};
  own[3] = smallest_cosine(x_squares + z * x_rows, count * x_rows, x_rows, k);
  own[4] = smallest_cosine(y_squares + z * y_rows, count * y_rows, y_rows, k);
  if (x_extremes != nullptr) {
    for (int64 c = thread; c < k; c += 256) {
      int32 a = read_again(x_extremes + z * 3 * k + c);
      int32 b = read_again(y_extremes + z * 3 * k + c);
      bool some = a != ZERO_ROW, others = b != ZERO_ROW;
      if (some) own[0] += count_units(2 * a, bits);
      if (others) own[1] += count_units(2 * b, bits);
      if (some && others) own[2] += count_units(a + b, bits);
    }
  }
#pragma unroll
  for (int32 i = 0; i < 5; ++i) found[i][thread] = own[i];
  for (uint32 half = 128; half > 0; half /= 2) {
    __syncthreads();
    if (thread >= half) continue;
#pragma unroll
    for (int32 i = 0; i < 5; ++i) {
      uint64 other = found[i][thread + half];
      own[i] = i < 3 ? own[i] + other : other < own[i] ? other : own[i];
      found[i][thread] = own[i];
    }
  }
  if (thread > 0) return;
  for (int32 i = 0; i < 3 && sums != nullptr; ++i) sums[i * count + z] = own[i];
  for (int32 i = 0; i < (y_rows > 0 ? 2 : 1); ++i) {
    cosines[i * count + z] = __longlong_as_double((int64)own[3 + i]);
  }
}

// Add to the sums (of one kind or two) and counts of the rows of x and y, and take the
// maximum with the extremes of their columns: contiguous as extremes[z, kind, column],
// filled with ZERO_ROW before. Any of these may be null. If there are cosines, the last
// block of each matrix summarises; done[z] counts the blocks. 48 registers, without
// spills.
extern "C" __global__ void __launch_bounds__(256, 5)
analyse(Side x, Side y, int64 x_column_span, int64 y_column_span, int32 norm_bits,
        int32 kinds, int32 bits, uint32* done, double* cosines, uint64* column_sums) {
  x.own = take_matrix(x.own);
  y.own = take_matrix(y.own);
  uint32 block = blockIdx.x;
  bool first = x.sums != nullptr && claim_block(block, x.own);
  if (first || (y.sums != nullptr && claim_block(block, y.own))) {
    Side side = x;
    if (!first) side = y;
    Strip strip = locate_strip(side.own, block);
    __shared__ uint32 found[32 * COUNTED];
    uint32* mine = found + (side.own.across ? threadIdx.x : threadIdx.y) * COUNTED;
    if (side.counts == nullptr) mine = nullptr;
    if (mine) clear_counts(found);
    add_squares(side.own, strip, side.shifts, side.largest, norm_bits, kinds, side.sums,
                mine);
    if (mine) add_counts(found, side.own, block, side.counts);
  } else {
    Operand x_turned = turn(x.own, x_column_span), y_turned = turn(y.own, y_column_span);
    first = claim_block(block, x_turned);
    Operand own = first ? x_turned : y_turned;
    find_extremes(own, locate_strip(own, block), first ? x.largest : y.largest,
                  first ? x.extremes : y.extremes);
  }
  if (cosines == nullptr || !is_last(done + blockIdx.z)) return;
  // One operand is that of both sides.
  const int32* others = y.own.rows > 0 ? y.extremes : x.extremes;
  summarise((const int64*)x.sums, x.own.rows, (const int64*)y.sums, y.own.rows, x.extremes,
            others, x.own.k, bits, cosines, column_sums);
}

// Add the squares of rounding errors to the sums of the rows of x and y, by the
// exponents that the rule chooses. The last block of each matrix finds largest[z], if
// it is asked for.
extern "C" __global__ void __launch_bounds__(256)
find_errors(Side x, Side y, const int64* x_squares, const int64* y_squares, Rule rule,
            double unit, uint32* done, uint64* largest) {
  uint32 block = blockIdx.x;
  Side side = x;
  bool first = claim_block(block, x.own);
  if (!first) side = y;
  Operand own = take_matrix(side.own);
  Strip strip = locate_strip(own, block);
  if (strip.first < strip.last) {
    int64 row = blockIdx.z * own.rows + strip.row;
    int32 e = choose_exponent(side.largest[row], (first ? x_squares : y_squares)[row], rule);
    add_errors(own, strip, side.shifts, e, unit, side.sums + row);
  }
  if (largest == nullptr || !is_last(done + blockIdx.z)) return;
  __shared__ uint64 found;
  uint32 thread = threadIdx.y * 32 + threadIdx.x;
  if (thread == 0) found = 0;
  __syncthreads();
  int64 x_rows = x.own.rows, y_rows = y.own.rows;
  uint64 *x_sums = x.sums + blockIdx.z * x_rows, *y_sums = y.sums + blockIdx.z * y_rows;
  uint64 most = 0;
  for (int64 i = thread; i < x_rows + y_rows; i += 256) {
    uint64 sum = read_again(i < x_rows ? x_sums + i : y_sums + (i - x_rows));
    most = sum > most ? sum : most;
  }
  if (most != 0) atomicMax(&found, most);
  __syncthreads();
  if (thread == 0) largest[blockIdx.z] = found;
}
