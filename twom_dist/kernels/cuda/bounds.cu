// Octaves of entries, counted, and multiplied in the ring of (min, +); and what sums of
// rows and columns say of a matrix.
#include "arithmetic.cuh"

// Relative errors of formulas of angles: see kernels/stack_summary.py.
#define MARGIN (1.0 / ((int64)1 << 48))

// total / sqrt(square k) (1 - MARGIN), square > 0: double operations that round each by
// itself.
__device__ __forceinline__ double find_cosine(int64 square, int64 total, int64 k) {
  double norm = __dsqrt_rn(__dmul_rn(__ll2double_rn(square), __ll2double_rn(k)));
  return __dmul_rn(__ddiv_rn(__ll2double_rn(total), norm), 1 - MARGIN);
}

// The bits of the smallest cosine that a thread finds among the rows of a matrix, and of
// 1. Bits of numbers that are not negative are in their order.
__device__ __forceinline__ uint64 smallest_cosine(const int64* squares,
                                                  const int64* totals, int64 rows,
                                                  int64 k) {
  double smallest = 1;
  for (int64 row = threadIdx.x; row < rows; row += 256) {
    if (squares[row] == 0) continue;
    double cosine = find_cosine(squares[row], totals[row], k);
    smallest = cosine < smallest ? cosine : smallest;
  }
  return (uint64)__double_as_longlong(smallest);
}

// 2^e for e <= 0, in units of 2^-bits, rounded up.
__device__ __forceinline__ uint64 count_units(int32 e, int32 bits) {
  return (uint64)1 << (e + bits > 0 ? e + bits : 0);
}

// cosines[side, z] = the smallest of the rows of matrix z of both operands; sums[i, z] =
// sum(2^(2 a)), sum(2^(2 b)), sum(2^(a + b)) over the columns that are not 0, a and b
// being extremes[z, 0, column] of norms.cu. One block a matrix; the second operand may be
// missing, its rows be none, and the extremes be null.
extern "C" __global__ void __launch_bounds__(256)
summarise(const int64* x_squares, const int64* x_totals, int64 x_rows,
          const int64* y_squares, const int64* y_totals, int64 y_rows,
          const int32* x_extremes, const int32* y_extremes, int64 k, int32 bits,
          double* cosines, uint64* sums) {
  // Reduced by halves: atomics of 64 bits took turns, 28 us of an H100 for 1024 rows.
  __shared__ uint64 found[5][256];
  uint64 z = blockIdx.z, count = gridDim.z;
  uint64 own[5] = {0, 0, 0};
  own[3] = smallest_cosine(x_squares + z * x_rows, x_totals + z * x_rows, x_rows, k);
  own[4] = smallest_cosine(y_squares + z * y_rows, y_totals + z * y_rows, y_rows, k);
  if (x_extremes != nullptr) {
    for (int64 c = threadIdx.x; c < k; c += 256) {
      int32 a = x_extremes[z * 3 * k + c], b = y_extremes[z * 3 * k + c];
      bool some = a != ZERO_ROW, others = b != ZERO_ROW;
      if (some) own[0] += count_units(2 * a, bits);
      if (others) own[1] += count_units(2 * b, bits);
      if (some && others) own[2] += count_units(a + b, bits);
    }
  }
#pragma unroll
  for (int32 i = 0; i < 5; ++i) found[i][threadIdx.x] = own[i];
  for (uint32 half = 128; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x >= half) continue;
#pragma unroll
    for (int32 i = 0; i < 5; ++i) {
      uint64 other = found[i][threadIdx.x + half];
      own[i] = i < 3 ? own[i] + other : other < own[i] ? other : own[i];
      found[i][threadIdx.x] = own[i];
    }
  }
  if (threadIdx.x > 0) return;
  for (int32 i = 0; i < 3 && sums != nullptr; ++i) sums[i * count + z] = own[i];
  for (int32 i = 0; i < (y_rows > 0 ? 2 : 1); ++i) {
    cosines[i * count + z] = __longlong_as_double((int64)own[3 + i]);
  }
}

// largest[z] = the largest of x[z, 0 ... m] and y[z, 0 ... n]. One block a matrix.
extern "C" __global__ void __launch_bounds__(256)
largest_sums(const uint64* x, int64 m, const uint64* y, int64 n, uint64* largest) {
  __shared__ uint64 found;
  if (threadIdx.x == 0) found = 0;
  __syncthreads();
  x += blockIdx.z * m;
  y += blockIdx.z * n;
  uint64 own = 0;
  for (int64 i = threadIdx.x; i < m; i += 256) own = x[i] > own ? x[i] : own;
  for (int64 i = threadIdx.x; i < n; i += 256) own = y[i] > own ? y[i] : own;
  if (own != 0) atomicMax(&found, own);
  __syncthreads();
  if (threadIdx.x == 0) largest[blockIdx.z] = found;
}

#define SIDE 64
#define DEPTH 32
// Words from one k to the next: multiples of 16 bytes that lie in different banks.
#define PITCH 68
#define NO_OCTAVE 127u
#define COUNTED 25
#define TWICE 0x10001u

// out[row, i] = number of entries x[row, 0 ... k] down to each of the first 16 octaves,
// every sixth from 21 on, 62, and all that are not 0. A warp for each row, blocks of 8:
// must read 1 byte an entry.
extern "C" __global__ void __launch_bounds__(256)
count_octaves(const uint8* x, int64 rows, int64 k, int32* out) {
  __shared__ uint32 counts[8][SIDE];
  uint32 lane = threadIdx.x % 32;
  uint32* own = counts[threadIdx.x / 32];
  int64 row = (int64)blockIdx.x * 8 + threadIdx.x / 32;
  own[lane] = own[lane + 32] = 0;
  __syncthreads();
  for (int64 c = lane; row < rows && c < k; c += 32) {
    uint32 octave = x[row * k + c];
    if (octave < NO_OCTAVE) atomicAdd(own + (octave < SIDE ? octave : SIDE - 1), 1u);
  }
  __syncthreads();
  if (row >= rows || lane >= COUNTED) return;
  uint32 end = lane < 16 ? lane : 21 + 6 * (lane - 16), total = 0;
  if (lane == COUNTED - 2) end = 62;
  for (uint32 i = 0; i <= end && i < SIDE; ++i) total += own[i];
  out[row * COUNTED + lane] = (int32)total;
}

// The octaves of 64 rows and 32 entries along k; none where there are no entries.
__device__ __forceinline__ void load_octaves(uint32 (&held)[DEPTH * PITCH],
                                             const uint8* x, int64 rows, int64 k,
                                             int64 first_row, int64 first, uint32 times) {
  int64 c = first + threadIdx.x % DEPTH;
#pragma unroll
  for (int32 i = threadIdx.x / DEPTH; i < SIDE; i += 256 / DEPTH) {
    int64 row = first_row + i;
    uint32 own = row < rows && c < k ? x[row * k + c] : NO_OCTAVE;
    held[threadIdx.x % DEPTH * PITCH + i] = own * times;
  }
}

// out[i, j] = the least x[i, c] + y[j, c] of all c, or NO_OCTAVE. Blocks of 256 threads
// on 64 x 64 pairs, 4 x 4 a thread, two columns in the halves of a word: sums of two
// octaves are below 2^8.
extern "C" __global__ void __launch_bounds__(256)
multiply_octaves(const uint8* x, const uint8* y, int64 m, int64 n, int64 k, uint8* out) {
  alignas(16) __shared__ uint32 left[DEPTH * PITCH], right[DEPTH * PITCH];
  uint32 across = (uint32)((n + SIDE - 1) / SIDE);
  int64 row = (int64)(blockIdx.x / across) * SIDE;
  int64 column = (int64)(blockIdx.x % across) * SIDE;
  uint32 own_row = threadIdx.x / 16 * 4, own_column = threadIdx.x % 16 * 4;
  uint32 least[4][2];
#pragma unroll
  for (int32 i = 0; i < 4; ++i) least[i][0] = least[i][1] = NO_OCTAVE * TWICE;
  for (int64 first = 0; first < k; first += DEPTH) {
    load_octaves(left, x, m, k, row, first, TWICE);
    load_octaves(right, y, n, k, column, first, 1);
    __syncthreads();
#pragma unroll 4
    for (int32 c = 0; c < DEPTH; ++c) {
      uint4 a = *reinterpret_cast<const uint4*>(left + c * PITCH + own_row);
      uint4 b = *reinterpret_cast<const uint4*>(right + c * PITCH + own_column);
      uint32 of_rows[4] = {a.x, a.y, a.z, a.w};
      uint32 of_columns[2] = {b.x | b.y << 16, b.z | b.w << 16};
#pragma unroll
      for (int32 i = 0; i < 4; ++i) {
#pragma unroll
        for (int32 j = 0; j < 2; ++j) {
          least[i][j] = __vminu2(least[i][j], of_rows[i] + of_columns[j]);
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int32 i = 0; i < 4; ++i) {
#pragma unroll
    for (int32 j = 0; j < 4; ++j) {
      int64 r = row + own_row + i, s = column + own_column + j;
      uint32 found = least[i][j / 2] >> 16 * (j % 2) & 255;
      if (r < m && s < n) out[r * n + s] = (uint8)found;
    }
  }
}
