// Octaves of entries, multiplied in the ring of (min, +).
#include "arithmetic.cuh"

#define SIDE 64
#define DEPTH 32
// Words from one k to the next: a multiple of 16 bytes, such that neighbours lie in
// different banks.
#define PITCH 68
#define CHECKED 512
#define NO_OCTAVE 127u
#define TWICE 0x10001u

// Load the octaves of 64 rows and 32 entries along k, NO_OCTAVE beyond the operand.
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

// out[i, j] = the least of x[i, c] + y[j, c] over all c, and of what it was if `again`.
// Each block of 256 threads takes 64 x 64 pairs, each thread 4 x 4, with two columns in
// the halves of a word: sums of two octaves are below 2^8. If rows and columns are
// given, a block ends once 8 times each of its sums is at most rows[i] + columns[j].
extern "C" __global__ void __launch_bounds__(256)
multiply_octaves(const uint8* x, const uint8* y, int64 m, int64 n, int64 k,
                 const int16* rows, const int16* columns, uint32 again, uint8* out) {
  alignas(16) __shared__ uint32 left[DEPTH * PITCH], right[DEPTH * PITCH];
  uint32 across = (uint32)((n + SIDE - 1) / SIDE);
  int64 row = (int64)(blockIdx.x / across) * SIDE;
  int64 column = (int64)(blockIdx.x % across) * SIDE;
  uint32 own_row = threadIdx.x / 16 * 4, own_column = threadIdx.x % 16 * 4;
  uint32 least[4][2];
  int32 enough[4][4];
  bool live = true;  // a warp, which has 8 rows
#pragma unroll
  for (int32 i = 0; i < 4; ++i) {
#pragma unroll
    for (int32 j = 0; j < 4; ++j) {
      int64 r = row + own_row + i, s = column + own_column + j;
      bool there = r < m && s < n;
      uint32 before = !there ? 0 : again ? out[r * n + s] : NO_OCTAVE;
      least[i][j / 2] = j % 2 ? least[i][j / 2] | before << 16 : before;
      enough[i][j] = there && rows != nullptr ? rows[r] + columns[s] : 0;
    }
  }
  for (int64 first = 0; first < k; first += DEPTH) {
    if (rows != nullptr && first % CHECKED == 0) {
      int32 open = 0;
#pragma unroll
      for (int32 i = 0; i < 4; ++i) {
#pragma unroll
        for (int32 j = 0; j < 4; ++j) {
          int32 found = least[i][j / 2] >> 16 * (j % 2) & 255;
          open |= 8 * found > enough[i][j];
        }
      }
      live = __ballot_sync(0xffffffffu, open) != 0;
      if (!__syncthreads_or(open)) break;
    }
    load_octaves(left, x, m, k, row, first, TWICE);
    load_octaves(right, y, n, k, column, first, 1);
    __syncthreads();
#pragma unroll 4
    for (int32 c = 0; live && c < DEPTH; ++c) {
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
