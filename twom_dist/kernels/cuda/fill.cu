// Fill: the rows and columns of C that a NaN or an Inf of A or B reaches.
//
// Macros: REAL, PARTS. The host does not read the exponents to know whether anything
// must be filled: blocks without such elements leave at once.
#include "fill.cuh"

#define SIDE 64

// Mark the elements whose row or column is reached, and leave the others as they are.
// Blocks of 32 x 8, one for each square, in a grid along x; z over the matrices of a
// stack. Without a second bound ptxas 13 aims at 40 registers for sm_120, and spills.
extern "C" __global__ void __launch_bounds__(256, 4)
mark_nonfinite(Side x, Side y, int64 k, uint8* out) {
  __shared__ uint8 marks[SIDE][SIDE];
  int64 n = y.rows;
  out += blockIdx.z * x.rows * n;
  Square square = locate_square<SIDE>(n);
  mark_square(take_matrix(x, blockIdx.z), take_matrix(y, blockIdx.z), k, square, marks);
  int64 j = square.column + square.own_column;
  for (int32 own = square.own_row; own < SIDE; own += 256 / SIDE) {
    uint32 mark = marks[own][square.own_column];
    if (mark) out[(square.row + own) * n + j] = (uint8)(mark & ~REACHED);
  }
}

// out[i, j] = alpha v + beta c, v the marked value, where a row or column is reached.
// Grid as for mark_nonfinite.
extern "C" __global__ void __launch_bounds__(256)
fill_nonfinite(const uint8* marks, int64 m, int64 n, const int32* rows,
               const int32* columns, Scalar alpha, Scalar beta, Matrix c, REAL* out,
               int64 out_stride, int64 out_stack_stride) {
  marks += blockIdx.z * m * n;
  rows += blockIdx.z * m;
  columns += blockIdx.z * n;
  out += PARTS * (blockIdx.z * out_stack_stride);
  Side left = {nullptr, m, 0, 0, 0, rows}, right = {nullptr, n, 0, 0, 0, columns};
  Square square = locate_square<SIDE>(n);
  int64 j = square.column + square.own_column;
  int32 f = read_exponent(right, j);
  for (int32 own = square.own_row; own < SIDE; own += 256 / SIDE) {
    int64 i = square.row + own;
    if (!first_mark(read_exponent(left, i), f)) continue;
    uint32 mark = marks[i * n + j];
    double v[PARTS];
#pragma unroll
    for (int32 part = 0; part < PARTS; ++part) v[part] = marked_value(mark >> 3 * part);
    multiply_scalar(v, alpha);
    store_element(v, locate(c, i, j), out + PARTS * (i * out_stride + j), beta);
  }
}
