// Samples of 8 bits modulo 2^32 or 2^64: their planes, and sums of their products as
// numbers.
//
// Macros: REAL, PARTS, SUM: int32 or int64.
#include "scalars.cuh"

struct alignas(PARTS) Sample {
  uint8 part[PARTS];
};

// planes[part * plane_stride + row * width + c] are the bytes of x[row, c]; zeros where
// row >= rows or c >= k. The matrices of a stack, one for each blockIdx.y, begin height
// after one another. Must move 2 PARTS bytes an entry.
extern "C" __global__ void __launch_bounds__(256)
encode_samples(const Sample* x, int64 rows, int64 k, int64 row_stride, int64 k_stride,
               int64 stack_stride, int8* planes, int64 height, int64 width,
               int64 plane_stride, int32 across, int32 rows_of_block) {
  Group group = locate_group(height, width, across, rows_of_block);
  if (group.row >= height || group.first >= width) return;
  x += blockIdx.y * stack_stride + group.row * row_stride;
  planes += (blockIdx.y * height + group.row) * width + group.first;
  uint32 words[PARTS] = {};
#pragma unroll
  for (int32 t = 0; t < 4; ++t) {
    if (group.row >= rows || group.first + t >= k) break;
    Sample own = x[(group.first + t) * k_stride];
#pragma unroll
    for (int32 part = 0; part < PARTS; ++part) {
      words[part] |= (uint32)own.part[part] << (8 * t);
    }
  }
#pragma unroll
  for (int32 part = 0; part < PARTS; ++part) {
    *reinterpret_cast<uint32*>(planes + part * plane_stride) = words[part];
  }
}

// out[i, j] = alpha X Y^T + beta c from sums[q * product_stride + i * row_stride + j]:
// each part is the sum of two, or the only one. z = blockIdx.z over the matrices. Only a
// triangle, if one is asked for. Blocks of 32 x 8: x over columns, y over rows.
extern "C" __global__ void __launch_bounds__(256)
decode_samples(const SUM* sums, int64 row_stride, int64 product_stride, int64 m,
               int64 n, Scalar alpha, Scalar beta, Matrix c, REAL* out,
               int32 triangle) {
  sums += blockIdx.z * m * row_stride;
  out += PARTS * (blockIdx.z * m * n);
  int64 j = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= n) return;
  int64 i = (int64)blockIdx.y * blockDim.y + threadIdx.y;
  for (; i < m; i += (int64)gridDim.y * blockDim.y) {
    if (!is_wanted(triangle, i, 1, j, 1)) continue;
    const SUM* own = sums + i * row_stride + j;
    double v[PARTS];
#pragma unroll
    for (int32 part = 0; part < PARTS; ++part) {
      uint64 total = (uint64)own[PARTS * part * product_stride];
      if (PARTS == 2) total += (uint64)own[(2 * part + 1) * product_stride];
      v[part] = (double)(SUM)total;
    }
    multiply_scalar(v, alpha);
    store_element(v, locate(c, i, j), out + PARTS * (i * n + j), beta);
  }
}
