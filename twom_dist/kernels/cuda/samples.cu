// Samples of 8 bits modulo 2^32: their planes, sums of their products, and these sums as
// numbers.
//
// Macros: REAL, PARTS.
#include "scalars.cuh"

// planes[part * plane_stride + (z * height + i) * width + l] are the parts of x[i, l];
// zeros beyond rows and k. z = blockIdx.z goes over the matrices of a stack; 4 divides
// width and the address. Blocks of 32 x 8: x over groups of four along k, y over rows,
// any number of blocks in y. Must move PARTS (sizeof(REAL) + 1) bytes an entry.
extern "C" __global__ void __launch_bounds__(256)
encode_samples(const REAL* x, int64 rows, int64 k, int64 row_stride, int64 column_stride,
               int64 stack_stride, int8* planes, int64 height, int64 width,
               int64 plane_stride) {
  x += PARTS * (blockIdx.z * stack_stride);
  planes += blockIdx.z * height * width;
  int64 first = 4 * ((int64)blockIdx.x * blockDim.x + threadIdx.x);
  if (first >= width) return;
  int64 row = (int64)blockIdx.y * blockDim.y + threadIdx.y;
  for (; row < height; row += (int64)gridDim.y * blockDim.y) {
    uint32 words[PARTS] = {};
    for (int32 t = 0; t < 4; ++t) {
      if (row >= rows || first + t >= k) break;
      Element own = load_element(x, row * row_stride + (first + t) * column_stride);
#pragma unroll
      for (int32 part = 0; part < PARTS; ++part) {
        int32 sample = __float2int_rn((float)own.part[part]);
        words[part] |= ((uint32)sample & 255u) << (8 * t);
      }
    }
#pragma unroll
    for (int32 part = 0; part < PARTS; ++part) {
      int8* target = planes + part * plane_stride + row * width + first;
      *reinterpret_cast<uint32*>(target) = words[part];
    }
  }
}

// As `requantise` does, but modulo 2^32: sums times the sign of their product, with what
// is at the same places of `old` unless it is null.
extern "C" __global__ void __launch_bounds__(256)
keep_samples(const int32* sums, int64 ld, int64 batch_stride, const int32* old,
             int32* out, int64 row_stride, int64 product_stride, int64 m,
             const int32* signs, const int32* products, int32 floats, int32 stack,
             int64 stack_stride) {
  int32 matrix = (int32)blockIdx.z % stack, q = products[(int32)blockIdx.z / stack];
  sums += blockIdx.z * batch_stride;
  int64 begin = q * product_stride + matrix * stack_stride;
  int64 column = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= row_stride) return;
  int64 row = (int64)blockIdx.y * blockDim.y + threadIdx.y;
  for (; row < m; row += (int64)gridDim.y * blockDim.y) {
    int64 place = begin + row * row_stride + column;
    int32 bits = sums[row * ld + column];
    int32 sum = floats ? __float2int_rn(__uint_as_float((uint32)bits)) : bits;
    uint32 total = (uint32)sum * (uint32)signs[q];
    out[place] = (int32)(total + (old ? (uint32)old[place] : 0u));
  }
}

// out[i, j] = alpha X Y^T + beta c from sums[q * product_stride + i * row_stride + j]:
// each part is the sum of two, or the only one. z = blockIdx.z over the matrices. Blocks of 32 x 8: x over columns, y over rows.
extern "C" __global__ void __launch_bounds__(256)
decode_samples(const int32* sums, int64 row_stride, int64 product_stride, int64 m,
               int64 n, Scalar alpha, Scalar beta, Matrix c, REAL* out) {
  sums += blockIdx.z * m * row_stride;
  out += PARTS * (blockIdx.z * m * n);
  int64 j = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= n) return;
  int64 i = (int64)blockIdx.y * blockDim.y + threadIdx.y;
  for (; i < m; i += (int64)gridDim.y * blockDim.y) {
    const int32* own = sums + i * row_stride + j;
    double v[PARTS];
#pragma unroll
    for (int32 part = 0; part < PARTS; ++part) {
      uint32 total = (uint32)own[2 * part * product_stride];
      if (PARTS == 2) total += (uint32)own[(2 * part + 1) * product_stride];
      v[part] = (double)(int32)total;
    }
    multiply_scalar(v, alpha);
    store_element(v, locate(c, i, j), out + PARTS * (i * n + j), beta);
  }
}
