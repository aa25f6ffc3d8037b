// Fill: the rows and columns of C that a NaN or an Inf of A or B reaches.
//
// Macros: REAL, PARTS. Threads of other elements leave at once, so that nobody has to
// wait for the exponents to know whether there is anything to do. With every finite
// entry replaced by its sign no sum overflows: what a part becomes depends only on which
// of +Inf, -Inf and NaN occur among its terms, in any order and tiling.
#include "mirror.cuh"

#define PLUS_INF 1u
#define MINUS_INF 2u
#define NOT_A_NUMBER 4u
#define NEGATED(marks) \
  (((marks) & NOT_A_NUMBER) | ((marks) & 1u) << 1 | ((marks) & 2u) >> 1)

// The sign, 0, +-2 for the infinities, 3 for NaN.
__device__ __forceinline__ int32 classify(REAL t) {
  uint64 bits = widen_bits(magnitude_bits(t));
  if (bits > 0x7FF0000000000000ull) return 3;
  int32 size = bits == 0 ? 0 : bits == 0x7FF0000000000000ull ? 2 : 1;
  return widen(t) < 0.0 ? -size : size;
}

// What the product of two such entries is, where it is not finite.
__device__ __forceinline__ uint32 mark_term(int32 a, int32 b) {
  if (a == 3 || b == 3) return NOT_A_NUMBER;
  if (a * a != 4 && b * b != 4) return 0;
  int32 product = a * b;
  return product == 0 ? NOT_A_NUMBER : product > 0 ? PLUS_INF : MINUS_INF;
}

__device__ __forceinline__ bool is_reached(const int32* rows, const int32* columns,
                                           int64 i, int64 j) {
  return __ldg(rows + i) == NONFINITE_ROW || __ldg(columns + j) == NONFINITE_ROW;
}

// An operand whose rows lie `row_stride` elements apart.
struct Side {
  const REAL* x;
  int64 row_stride, k_stride;
  int32 conjugate;
};

// Three bits for the real part, three above for the imaginary one, of element (i, j) of
// X Y^T.
__device__ __forceinline__ uint8 mark_element(const Side& x, const Side& y, int64 i,
                                              int64 j, int64 k) {
  uint32 re = 0, im = 0;
  for (int64 c = 0; c < k; ++c) {
    Element a = load_element(x.x, i * x.row_stride + c * x.k_stride);
    Element b = load_element(y.x, j * y.row_stride + c * y.k_stride);
    int32 ar = classify(a.part[0]), br = classify(b.part[0]);
    re |= mark_term(ar, br);
#if PARTS == 2
    int32 ai = classify(a.part[1]), bi = classify(b.part[1]);
    if (x.conjugate && ai != 3) ai = -ai;
    if (y.conjugate && bi != 3) bi = -bi;
    uint32 product = mark_term(ai, bi);
    re |= NEGATED(product);
    im |= mark_term(ar, bi) | mark_term(ai, br);
#endif
  }
  return (uint8)(re | im << 3);
}

// Marks where a row or column is reached, other elements are left as they are. Blocks of
// 32 x 8: x over columns, y over rows, any number of blocks in y; z over the matrices of
// stacks.
extern "C" __global__ void __launch_bounds__(256)
mark_nonfinite(const REAL* x, int64 x_row_stride, int64 x_k_stride, int32 x_conjugate,
               const REAL* y, int64 y_row_stride, int64 y_k_stride, int32 y_conjugate,
               int64 m, int64 n, int64 k, const int32* rows, const int32* columns,
               uint8* marks, int64 x_stack_stride, int64 y_stack_stride) {
  x += PARTS * (blockIdx.z * x_stack_stride);
  y += PARTS * (blockIdx.z * y_stack_stride);
  rows += blockIdx.z * m;
  columns += blockIdx.z * n;
  marks += blockIdx.z * m * n;
  int64 j = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= n) return;
  Side left = {x, x_row_stride, x_k_stride, x_conjugate};
  Side right = {y, y_row_stride, y_k_stride, y_conjugate};
  int64 i = (int64)blockIdx.y * blockDim.y + threadIdx.y;
  for (; i < m; i += (int64)gridDim.y * blockDim.y) {
    if (!is_reached(rows, columns, i, j)) continue;
    marks[i * n + j] = mark_element(left, right, i, j, k);
  }
}

__device__ __forceinline__ double marked_value(uint32 marks) {
  marks &= 7u;
  if (marks == PLUS_INF) return __longlong_as_double(0x7FF0000000000000ll);
  if (marks == MINUS_INF) return __longlong_as_double((long long)0xFFF0000000000000ull);
  return marks == 0 ? 0.0 : __longlong_as_double(0x7FF8000000000000ll);
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
  v[0] = marked_value(marks);
#if PARTS == 2
  v[1] = marked_value(marks >> 3);
#endif
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
  int64 j = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= n) return;
  Scalars scalars = {alpha_mode, alpha_re, alpha_im, beta_mode, beta_re, beta_im};
  int64 i = (int64)blockIdx.y * blockDim.y + threadIdx.y;
  for (; i < m; i += (int64)gridDim.y * blockDim.y) {
    if (!is_reached(rows, columns, i, j)) continue;
    const REAL* added = c + PARTS * (i * c_row_stride + j * c_column_stride);
    fill_element(marks[i * n + j], scalars, added, out + PARTS * (i * out_stride + j));
  }
}

// Both at once, of a product whose operands hold all of k: out is contiguous. Threads
// look at their exponents before anything else, and mostly end there. Grid as for
// mark_nonfinite.
extern "C" __global__ void __launch_bounds__(256)
fill_product(const REAL* x, int64 x_row_stride, int64 x_k_stride, int32 x_conjugate,
             const REAL* y, int64 y_row_stride, int64 y_k_stride, int32 y_conjugate,
             int64 m, int64 n, int64 k, const int32* rows, const int32* columns,
             int32 alpha_mode, double alpha_re, double alpha_im, int32 beta_mode,
             double beta_re, double beta_im, const REAL* c, int64 c_row_stride,
             int64 c_column_stride, REAL* out) {
  int64 j = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= n) return;
  int64 begin = (int64)blockIdx.y * blockDim.y + threadIdx.y;
  int64 step = (int64)gridDim.y * blockDim.y;
  bool any = __ldg(columns + j) == NONFINITE_ROW;
#pragma unroll 8
  for (int64 i = begin; i < m; i += step) any |= __ldg(rows + i) == NONFINITE_ROW;
  if (!any) return;
  Side left = {x, x_row_stride, x_k_stride, x_conjugate};
  Side right = {y, y_row_stride, y_k_stride, y_conjugate};
  Scalars scalars = {alpha_mode, alpha_re, alpha_im, beta_mode, beta_re, beta_im};
  for (int64 i = begin; i < m; i += step) {
    if (!is_reached(rows, columns, i, j)) continue;
    const REAL* added = c + PARTS * (i * c_row_stride + j * c_column_stride);
    fill_element(mark_element(left, right, i, j, k), scalars, added,
                 out + PARTS * (i * n + j));
  }
}

// The same of one triangle of a square product, which closes the other one, as
// close_diagonal does. Grid of squares.
extern "C" __global__ void __launch_bounds__(256)
fill_and_close(const REAL* x, int64 x_row_stride, int64 x_k_stride, int32 x_conjugate,
               const REAL* y, int64 y_row_stride, int64 y_k_stride, int32 y_conjugate,
               int64 n, int64 k, const int32* rows, const int32* columns,
               int32 alpha_mode, double alpha_re, double alpha_im, int32 beta_mode,
               double beta_re, double beta_im, const REAL* c, int64 c_row_stride,
               int64 c_column_stride, REAL* out, int32 conjugate, int32 upper,
               int32 full) {
  Spot spot = locate_in_square(n, n);
  int64 i = spot.row, j = spot.column;
  if (i >= n || j >= n || (upper ? i > j : i < j)) return;
  if (is_reached(rows, columns, i, j)) {
    Side left = {x, x_row_stride, x_k_stride, x_conjugate};
    Side right = {y, y_row_stride, y_k_stride, y_conjugate};
    Scalars scalars = {alpha_mode, alpha_re, alpha_im, beta_mode, beta_re, beta_im};
    const REAL* added = c + PARTS * (i * c_row_stride + j * c_column_stride);
    fill_element(mark_element(left, right, i, j, k), scalars, added,
                 out + PARTS * (i * n + j));
  }
  close_element(out, n, i, j, conjugate, full);
}
