// Passes over finished tiles: alpha x + beta c, the mirror image, a closed diagonal.
//
// Macros: REAL, PARTS. CuPy's own functions would do, except for float32: CuPy compiles
// with an option that flushes subnormal floats to zero, in conversions, sums and
// conjugates too.
#include "scalars.cuh"

// out[i, j] = alpha x + beta c, either of which may be missing (mode NONE, null). Blocks
// of 32 x 8: x over columns, y over rows, any number in y. Must move three elements.
extern "C" __global__ void __launch_bounds__(256)
scale_and_add(Matrix x, Scalar alpha, Matrix c, Scalar beta, int64 m, int64 n, REAL* out) {
  int64 j = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= n) return;
  int64 i = (int64)blockIdx.y * blockDim.y + threadIdx.y;
  for (; i < m; i += (int64)gridDim.y * blockDim.y) {
    const REAL* own = locate(c, i, j);
    double v[PARTS];
    if (alpha.mode == NONE) {
      load_scaled(v, own, beta);
      store_element(v, own, out + PARTS * (i * n + j), Scalar{NONE});
    } else {
      load_scaled(v, locate(x, i, j), alpha);
      store_element(v, own, out + PARTS * (i * n + j), beta);
    }
  }
}

// out[j, i] = x[i, j], conjugated or not, from m x n with strides to n x m. Grid of
// squares, z over the tiles of a stack. Must move two elements.
extern "C" __global__ void __launch_bounds__(256)
mirror_tile(const REAL* x, int64 m, int64 n, int64 row_stride, int64 column_stride,
            int32 conjugate, REAL* out, int64 stack_stride) {
  x += PARTS * (blockIdx.z * stack_stride);
  out += PARTS * (blockIdx.z * m * n);
  Spot spot = locate_in_square(m, n);
  int64 i = spot.row, j = spot.column;
  if (i >= m || j >= n) return;
  Element own = load_element(x, i * row_stride + j * column_stride);
  write_element(out, j * m + i, conjugate_element(own, conjugate));
}

// The triangle of an n x n tile that is not computed becomes the mirror image of the
// other one, or zero; the diagonal becomes real where the image is conjugated. Each
// thread reads an element of one triangle and writes its image. Grid of squares, z over
// the stack.
extern "C" __global__ void __launch_bounds__(256)
symmetrise_diagonal_tile(REAL* tile, int64 n, int32 conjugate, int32 upper, int32 full) {
  tile += PARTS * (blockIdx.z * n * n);
  Spot spot = locate_in_square(n, n);
  int64 i = spot.row, j = spot.column;
  if (i >= n || j >= n || (upper ? i > j : i < j)) return;
  if (i != j) {
    Element image = {};
    if (full) image = conjugate_element(load_element<true>(tile, i * n + j), conjugate);
    write_element(tile, j * n + i, image);
  } else if (PARTS == 2 && conjugate) {
    Element own = load_element<true>(tile, i * n + i);
    own.part[PARTS - 1] = 0;
    write_element(tile, i * n + i, own);
  }
}
