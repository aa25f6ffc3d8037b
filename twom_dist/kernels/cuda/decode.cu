// Decode: int8 residues -> floating-point tile, by the six steps of Engine.decode.
//
// Macros: those of decode.cuh. Must move products + RESULTS sizeof(element) bytes an
// element, one sizeof(element) more with beta: for N = 16 in 2.7 clocks of an H200.
#include "decode.cuh"

// out[i, j] = alpha X Y^T + beta c from residues[q * product_stride + i * row_stride + j];
// 16 divides row_stride and the address.
// out is contiguous: words, the matrices of a stack, m rows, n columns.
// Blocks of 32 x 8: x over groups of ELEMENTS along n, y over rows, any number of blocks
// in y; z over the matrices. Threads without an element of the triangle write nothing.
extern "C" __global__ void __launch_bounds__(256, 2)
decode(const int8* residues, int64 row_stride, int64 product_stride, int64 m, int64 n,
       const int32* rows, const int32* columns, Scalar alpha, Scalar beta, Matrix c,
       REAL* out, int32 triangle) {
  residues += blockIdx.z * m * row_stride;
  rows += blockIdx.z * m;
  columns += blockIdx.z * n;
  out += PARTS * (blockIdx.z * m * n);
  int64 first = ELEMENTS * ((int64)blockIdx.x * blockDim.x + threadIdx.x);
  if (first >= n) return;
  int32 count = n - first < ELEMENTS ? (int32)(n - first) : ELEMENTS;
  int64 i = (int64)blockIdx.y * blockDim.y + threadIdx.y;
  for (; i < m; i += (int64)gridDim.y * blockDim.y) {
    if (!is_wanted(triangle, i, 1, first, count)) continue;
    Reader reader = {residues + i * row_stride + first, product_stride};
    double v[ELEMENTS][RESULTS][PARTS];
    decode_neighbours(reader, rows[i], columns + first, count, v);
    multiply_neighbours(v, rows[i], columns + first, count, alpha);
#pragma unroll
    for (int32 e = 0; e < ELEMENTS; ++e) {
      if (e >= count) break;
      int64 j = first + e;
      const REAL* own = locate(c, i, j);
      REAL* target = out + PARTS * (i * n + j);
#if RESULTS == 2
#pragma unroll
      for (int32 part = 0; part < PARTS; ++part) {
        double high = v[e][0][part], total = __dadd_rn(high, v[e][1][part]);
        double low = __dadd_rn(v[e][1][part], -__dadd_rn(total, -high));
        v[e][0][part] = total;
        // Inf - Inf is NaN.
        v[e][1][part] = total - total == 0.0 ? low : 0.0;
      }
      REAL* beyond = target + PARTS * (gridDim.z * m * n);
      store_element(v[e][1], own, beyond, Scalar{NONE});
#endif
      store_element(v[e][0], own, target, beta);
    }
  }
}
