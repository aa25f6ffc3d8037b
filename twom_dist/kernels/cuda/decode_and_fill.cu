// Decode and fill a product whose operands hold all of k, in one pass; or a triangle of
// a square product, and close the other triangle.
//
// Macros: those of decode.cuh; a result has one component. In 2M, if X meets its own
// conjugate, C- = C+^T. Then there are residues of C+ alone, and C- is read across the
// diagonal, through shared memory. Must move as many bytes as decode.cu; separate
// passes would read all exponents again (fill.cu), and the triangle
// (symmetrise_diagonal_tile).
#include "decode.cuh"
#include "fill.cuh"

// A block's square. A warp takes ELEMENTS rows at a time, so that what it writes along
// columns also fills sectors of 32 bytes: 2 elements of complex128, or 4 of complex64.
#define SIDE 32
// Words of a row of `turned`: those that a warp stores lie in different banks.
#define PITCH 9

// Reads the first residue of a pair at its own place, and the second at another.
struct PairReader {
  const int8* source;
  int64 product_stride, pair_stride;
  const int8* other;
  int64 other_stride;

  __device__ __forceinline__ void load(uint32 (&r)[2]) {
    r[0] = load_whole(source);
    r[1] = *reinterpret_cast<const Whole*>(other);
    source += pair_stride;
    other += other_stride;
  }

  template <int32 COUNT> __device__ __forceinline__ void load(uint32 (&r)[COUNT]) {
    Reader reader = {source, product_stride};
    reader.load(r);
    source = reader.source;
  }
};

// Byte j of turned[(q SIDE + i) PITCH] = residue of modulus q at row `column` + j and
// column `row` + i. Four rows and columns are turned in registers.
__device__ __forceinline__ void turn_residues(const int8* residues, int64 row_stride,
                                              int64 product_stride, int64 n, int64 row,
                                              int64 column, uint32* turned) {
#pragma unroll 2
  for (int32 own = 32 * threadIdx.y + threadIdx.x; own < 64 * MODULI; own += 256) {
    int32 across = own % 8, down = own / 8 % 8, q = own / 64;
    int64 i = row + 4 * across, j = column + 4 * down;
    const int8* source = residues + q * product_stride + j * row_stride + i;
    uint32 a[4];
#pragma unroll
    for (int32 t = 0; t < 4; ++t, source += row_stride) {
      a[t] = i < n && j + t < n ? __ldg(reinterpret_cast<const uint32*>(source)) : 0;
    }
    uint32 low[2], high[2];
#pragma unroll
    for (int32 t = 0; t < 2; ++t) {
      low[t] = __byte_perm(a[2 * t], a[2 * t + 1], 0x5140);
      high[t] = __byte_perm(a[2 * t], a[2 * t + 1], 0x7362);
    }
    uint32* target = turned + (q * SIDE + 4 * across) * PITCH + down;
    target[0] = __byte_perm(low[0], low[1], 0x5410);
    target[PITCH] = __byte_perm(low[0], low[1], 0x7632);
    target[2 * PITCH] = __byte_perm(high[0], high[1], 0x5410);
    target[3 * PITCH] = __byte_perm(high[0], high[1], 0x7632);
  }
}

// out[i, j] = alpha X Y^T + beta c, or a triangle of it; the other triangle becomes the
// mirror image, conjugated if asked for, or zeros unless `full`. The diagonal of a
// Hermitian product is real. Operands as in fill.cu; residues as in decode.cu, but only
// one product for each modulus if `mirrored`, which takes 2M alone; out is contiguous.
// Blocks of 32 x 8, x over squares, z over the matrices of a stack.
extern "C" __global__ void __launch_bounds__(256, 2)
decode_and_fill(Side x, Side y, int64 k, const int8* residues, int64 row_stride,
                int64 product_stride, Scalar alpha, Scalar beta, Matrix c, REAL* out,
                int32 triangle, int32 mirrored, int32 conjugate, int32 full,
                const int32* places) {
  extern __shared__ uint32 turned[];  // MODULI SIDE PITCH, if mirrored
  __shared__ uint8 marks[SIDE][SIDE];
  int64 m = x.rows, n = y.rows;
  Square square = locate_square<SIDE>(n);
  if (!is_wanted(triangle, square.row, SIDE, square.column, SIDE)) return;
  uint32 place = find_place(places, blockIdx.z);
  x = take_matrix(x, place);
  y = take_matrix(y, place);
  c = move(c, place);
  const int32 *rows = x.exponents, *columns = y.exponents;
  residues += blockIdx.z * m * row_stride;
  out += PARTS * (place * m * n);
  if (mirrored) {
    turn_residues(residues, row_stride, product_stride, n, square.row, square.column,
                  turned);
  }
  mark_square(x, y, k, square, marks);  // all threads meet
  int32 thread = 32 * threadIdx.y + threadIdx.x;
  int32 own_column = ELEMENTS * (thread % (SIDE / ELEMENTS));
  int64 first = square.column + own_column;
  int32 count = n - first < ELEMENTS ? (int32)(n - first) : ELEMENTS;
#pragma unroll 1
  for (int32 own = thread / (SIDE / ELEMENTS); own < SIDE; own += 8 * ELEMENTS) {
    int64 i = square.row + own;
    if (i >= m || count <= 0 || !is_wanted(triangle, i, 1, first, count)) continue;
    const int8* source = residues + i * row_stride + first;
    PairReader reader = {source, product_stride, 2 * product_stride,
                         source + product_stride, 2 * product_stride};
    if (mirrored) {
      reader.pair_stride = product_stride;
      reader.other = reinterpret_cast<const int8*>(turned + own * PITCH) + own_column;
      reader.other_stride = 4 * SIDE * PITCH;
    }
    double v[ELEMENTS][RESULTS][PARTS];
    decode_neighbours(reader, rows[i], columns + first, count, v);
#pragma unroll
    for (int32 e = 0; e < ELEMENTS; ++e) {
      // A branch for each element would take seconds to compile.
      uint32 mark = marks[own][own_column + e];
#pragma unroll
      for (int32 part = 0; part < PARTS; ++part) {
        double marked = marked_value(mark >> 3 * part);
        v[e][0][part] = mark ? marked : v[e][0][part];
      }
    }
    // Zeros, Infs and NaNs stay what they are if they are scaled.
    multiply_neighbours(v, rows[i], columns + first, count, alpha);
#pragma unroll
    for (int32 e = 0; e < ELEMENTS; ++e) {
      int64 j = first + e;
      if (e >= count || !is_wanted(triangle, i, 1, j, 1)) continue;
      Element found = make_element(v[e][0], locate(c, i, j), beta);
      if (PARTS == 2 && conjugate && i == j) found.part[PARTS - 1] = 0;
      write_element(out, i * n + j, found);
      if (triangle == FULL || i == j) continue;
      found = full ? conjugate_element(found, conjugate) : Element{};
      write_element(out, j * n + i, found);
    }
  }
}
