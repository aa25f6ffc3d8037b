// Samples of 8 bits modulo 2^32 or 2^64: rows in another order, and sums of their products
// as numbers.
//
// Macros: REAL, and those of sums.cuh.
#include "scalars.cuh"
#include "sums.cuh"

// out[row * width + c] are the samples x[row, c], zeros from k on; or, if `part` is 0 or
// 1, pairs turned as that part of a product takes them. x_sums[row] += the bytes that it
// corrects the product by, of rows that lie along memory. Either may be null. The matrices
// of a stack, one for each blockIdx.y, lie one below the other. 4 divides width.
extern "C" __global__ void __launch_bounds__(256)
copy_samples(const Sample* x, int64 rows, int64 k, int64 row_stride, int64 k_stride,
             int64 stack_stride, int32 part, Sample* out, SUM* x_sums, int64 width,
             int32 across, int32 rows_of_block) {
  Group group = locate_group(rows, width, across, rows_of_block);
  bool within = group.row < rows && group.first < width;
  x += blockIdx.y * stack_stride + group.row * row_stride;
  uint32 words[PARTS] = {};
#pragma unroll
  for (int32 t = 0; t < 4; ++t) {
    if (!within || group.first + t >= k) break;
    Sample own = x[(group.first + t) * k_stride];
#pragma unroll
    for (int32 i = 0; i < PARTS; ++i) {
      words[PARTS * t / 4] |= (uint32)own.part[i] << (8 * (PARTS * t + i) & 31);
    }
  }
  int64 row = blockIdx.y * rows + group.row;
  if (x_sums) {
    int32 sum = 0;
#pragma unroll
    for (uint32 word : words) sum = add_bytes(word, sum);
#pragma unroll
    for (int32 i = 1; i < 32; i *= 2) sum += __shfl_xor_sync(~0u, sum, i);
    bool leads = (threadIdx.x & 31) == 0 && within;
    if (leads) atomicAdd((Word*)x_sums + row, (Word)(SUM)sum);
  }
  if (!out || !within) return;
#pragma unroll
  for (int32 i = 0; i < PARTS; ++i) {
    uint32 word = part < 0 ? words[i] : turn_word(words[i], part);
    reinterpret_cast<uint32*>(out + row * width + group.first)[i] = word;
  }
}

// out[i, j] = alpha X Y^T + beta c from sums[part * part_stride + i * row_stride + j], z =
// blockIdx.z over the matrices. Only a triangle, if one is asked for; `closes`: beyond it
// what symmetrise_diagonal_tile writes there. Blocks of 32 x 8: x over columns, y over
// rows, so that mirror images fill lines as well.
extern "C" __global__ void __launch_bounds__(256)
decode_samples(const SUM* sums, int64 row_stride, int64 part_stride, int64 m,
               int64 n, Scalar alpha, Scalar beta, Matrix c, REAL* out,
               int32 triangle, int32 closes, int32 conjugate, int32 full) {
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
    for (int32 part = 0; part < PARTS; ++part) v[part] = (double)own[part * part_stride];
    multiply_scalar(v, alpha);
    Element found = make_element(v, locate(c, i, j), beta);
    if (PARTS == 2 && closes && conjugate && i == j) found.part[PARTS - 1] = 0;
    write_element(out, i * n + j, found);
    if (!closes || i == j) continue;
    found = full ? conjugate_element(found, conjugate) : Element{};
    write_element(out, j * n + i, found);
  }
}
