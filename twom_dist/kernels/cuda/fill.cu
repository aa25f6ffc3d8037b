// Fill: the rows and columns of C that a NaN or an Inf of A or B reaches.
//
// Macros: REAL, PARTS. Nobody waits for the exponents to know whether there is anything to
// do: blocks without such elements leave at once.
#include "fill.cuh"

#define SIDE 64

__device__ __forceinline__ Square locate_square(int64 columns) {
  uint32 across = (uint32)((columns + SIDE - 1) / SIDE);
  int32 thread = 32 * threadIdx.y + threadIdx.x;
  return {SIDE * (int64)(blockIdx.x / across), SIDE * (int64)(blockIdx.x % across),
          thread / SIDE, thread % SIDE};
}

// Marks where a row or column is reached, other elements are left as they are. Blocks of
// 32 x 8, one a square, the grid one-dimensional but for z, over the matrices of stacks.
// Without a second bound ptxas 13 aims at 40 registers for sm_120, and spills.
extern "C" __global__ void __launch_bounds__(256, 4)
mark_nonfinite(const REAL* x, int64 x_row_stride, int64 x_k_stride, int32 x_conjugate,
               const REAL* y, int64 y_row_stride, int64 y_k_stride, int32 y_conjugate,
               int64 m, int64 n, int64 k, const int32* rows, const int32* columns,
               uint8* out, int64 x_stack_stride, int64 y_stack_stride) {
  __shared__ uint8 marks[SIDE][SIDE];
  x += PARTS * (blockIdx.z * x_stack_stride);
  y += PARTS * (blockIdx.z * y_stack_stride);
  rows += blockIdx.z * m;
  columns += blockIdx.z * n;
  out += blockIdx.z * m * n;
  Side left = {x, m, x_row_stride, x_k_stride, x_conjugate, rows};
  Side right = {y, n, y_row_stride, y_k_stride, y_conjugate, columns};
  Square square = locate_square(n);
  mark_square(left, right, k, square, marks);
  int64 j = square.column + square.own_column;
  for (int32 own = square.own_row; own < SIDE; own += 256 / SIDE) {
    uint32 mark = marks[own][square.own_column];
    if (mark) out[(square.row + own) * n + j] = (uint8)(mark & ~REACHED);
  }
}

// alpha v + beta c.
struct Scalars {
  int32 alpha_mode;
  double alpha_re, alpha_im;
  int32 beta_mode;
  double beta_re, beta_im;
};

__device__ __forceinline__ void fill_element(uint32 marks, const Scalars& scalars,
                                             const REAL* c, REAL* out) {
  double v[PARTS];
#pragma unroll
  for (int32 part = 0; part < PARTS; ++part) v[part] = marked_value(marks >> 3 * part);
  multiply_scalar(v, scalars.alpha_mode, scalars.alpha_re, scalars.alpha_im);
  store_element(v, c, out, scalars.beta_mode, scalars.beta_re, scalars.beta_im);
}

// out[i, j] = alpha v + beta c, v the marked value, where a row or column is reached.
// Grid as for mark_nonfinite.
extern "C" __global__ void __launch_bounds__(256)
fill_nonfinite(const uint8* marks, int64 m, int64 n, const int32* rows,
               const int32* columns, int32 alpha_mode, double alpha_re, double alpha_im,
               int32 beta_mode, double beta_re, double beta_im, const REAL* c,
               int64 c_row_stride, int64 c_column_stride, REAL* out, int64 out_stride,
               int64 c_stack_stride, int64 out_stack_stride) {
  marks += blockIdx.z * m * n;
  rows += blockIdx.z * m;
  columns += blockIdx.z * n;
  c += PARTS * (blockIdx.z * c_stack_stride);
  out += PARTS * (blockIdx.z * out_stack_stride);
  Side left = {nullptr, m, 0, 0, 0, rows}, right = {nullptr, n, 0, 0, 0, columns};
  Scalars scalars = {alpha_mode, alpha_re, alpha_im, beta_mode, beta_re, beta_im};
  Square square = locate_square(n);
  int64 j = square.column + square.own_column;
  int32 f = read_exponent(right, j);
  for (int32 own = square.own_row; own < SIDE; own += 256 / SIDE) {
    int64 i = square.row + own;
    if (!first_mark(read_exponent(left, i), f)) continue;
    const REAL* added = c + PARTS * (i * c_row_stride + j * c_column_stride);
    fill_element(marks[i * n + j], scalars, added, out + PARTS * (i * out_stride + j));
  }
}

// Both at once, of a product whose operands hold all of k: out is contiguous. Grid as for
// mark_nonfinite.
extern "C" __global__ void __launch_bounds__(256)
fill_product(const REAL* x, int64 x_row_stride, int64 x_k_stride, int32 x_conjugate,
             const REAL* y, int64 y_row_stride, int64 y_k_stride, int32 y_conjugate,
             int64 m, int64 n, int64 k, const int32* rows, const int32* columns,
             int32 alpha_mode, double alpha_re, double alpha_im, int32 beta_mode,
             double beta_re, double beta_im, const REAL* c, int64 c_row_stride,
             int64 c_column_stride, REAL* out, int64 x_stack_stride,
             int64 y_stack_stride, int64 c_stack_stride) {
  __shared__ uint8 marks[SIDE][SIDE];
  x += PARTS * (blockIdx.z * x_stack_stride);
  y += PARTS * (blockIdx.z * y_stack_stride);
  rows += blockIdx.z * m;
  columns += blockIdx.z * n;
  c += PARTS * (blockIdx.z * c_stack_stride);
  out += PARTS * (blockIdx.z * m * n);
  Side left = {x, m, x_row_stride, x_k_stride, x_conjugate, rows};
  Side right = {y, n, y_row_stride, y_k_stride, y_conjugate, columns};
  Scalars scalars = {alpha_mode, alpha_re, alpha_im, beta_mode, beta_re, beta_im};
  Square square = locate_square(n);
  mark_square(left, right, k, square, marks);
  int64 j = square.column + square.own_column;
  for (int32 own = square.own_row; own < SIDE; own += 256 / SIDE) {
    uint32 mark = marks[own][square.own_column];
    if (!mark) continue;
    int64 i = square.row + own;
    const REAL* added = c + PARTS * (i * c_row_stride + j * c_column_stride);
    fill_element(mark, scalars, added, out + PARTS * (i * n + j));
  }
}
