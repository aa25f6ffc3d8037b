// Bounds of rho^2 of all pairs of rows of two operands, where these are small.
//
// Leading digits of all magnitudes are multiplied by dp4a. Where these and angles leave a
// pair open, a warp sums all of its terms. Bounds by digits are never smaller than those
// by all terms, rounded as they are: so a pair may be left out whose bound is not beyond
// the largest so far, and any order of the pairs finds the same one.
#include "magnitudes.cuh"

#define ALL_LANES 0xFFFFFFFFu
// Rows of each operand in a block, entries along k at once, and words from four entries
// to the next: a multiple of 16 bytes, in other banks.
#define SIDE 64
#define DEPTH 32
#define PITCH 68
#define WORDS (DEPTH / 4 * PITCH)

// Digits of rows: floor(2^6 x), the next 7 bits of x, and a bit where x is not 0.
struct alignas(16) Digits {
  uint32 high[WORDS], low[WORDS], some[SIDE];
};

// Squares of the norms of rows, 0 without entries, and their angles to ones.
struct Rows {
  double squares[SIDE], cosines[SIDE], sines[SIDE];
};

__device__ __forceinline__ void load_digits(Digits& held, const uint16* x, int64 rows,
                                            int64 k, int64 first_row, int64 first) {
  uint32 lane = threadIdx.x % 32;
  int64 c = first + lane;
  uint8* high = reinterpret_cast<uint8*>(held.high);
  uint8* low = reinterpret_cast<uint8*>(held.low);
#pragma unroll
  for (uint32 i = threadIdx.x / 32; i < SIDE; i += 8) {
    int64 row = first_row + i;
    uint32 own = row < rows && c < k ? x[row * k + c] : 0;
    uint32 digits = scale_magnitude(own, 13);
    uint32 at = 4 * (lane / 4 * PITCH + i) + lane % 4;
    high[at] = (uint8)(digits >> 7);
    low[at] = (uint8)(digits & 127);
    uint32 some = __ballot_sync(ALL_LANES, own != 0);
    if (lane == 0) held.some[i] = some;
  }
}

// sums[0] are squares, sums[1] totals of the rows.
__device__ __forceinline__ void weigh_row(Rows& held, uint32 i, const int64* sums,
                                          int64 rows, int64 k, int64 row, double unit) {
  int64 square = row < rows ? sums[row] : 0;
  double cosine = 1;
  if (square != 0) cosine = find_cosine(square, sums[rows + row], k);
  double sine = __dsqrt_rn(__dmul_rn(1 - cosine, 1 + cosine));
  held.squares[i] = __dmul_rn(__ll2double_rn(square), unit);
  held.cosines[i] = cosine;
  held.sines[i] = __dmul_rn(sine, 1 + MARGIN);
}

__device__ __forceinline__ bool close_by_angles(const Rows& x, uint32 i, const Rows& y,
                                                uint32 j, double limit) {
  double cosine = __dmul_rn(x.cosines[i], y.cosines[j]);
  cosine = __dadd_rn(cosine, -__dmul_rn(x.sines[i], y.sines[j]));
  cosine = __dadd_rn(cosine, -MARGIN);
  double square = __dmul_rn(cosine, cosine);
  return cosine > 0 && square > 0 && __ddiv_rn(1 + MARGIN, square) <= limit;
}

// A bound from above by one of the product from below; both: the product of the squares.
// The margin is that of magnitudes, which are rounded to float32 before they are cut.
__device__ __forceinline__ double bound_ratio(double both, double lower) {
  const double margin = 1.0 / (1 << 21);
  return __ddiv_rn(__dmul_rn(both, 1 + margin), __dmul_rn(lower, lower));
}

// A bound of the product from below by all terms, the same in all lanes of a warp: their
// sum, or the largest, of which 2^bits may see nothing. Some term is not 0.
__device__ __forceinline__ double sum_terms(const uint16* x, const uint16* y, int64 k,
                                            int32 bits, double unit) {
  uint64 total = 0;
  int32 largest = 0;
#pragma unroll 4
  for (int64 c = threadIdx.x % 32; c < k; c += 32) {
    uint32 a = x[c], b = y[c];
    total += (uint64)scale_magnitude(a, bits) * scale_magnitude(b, bits);
    int32 term = (int32)(a >> 7) + (int32)(b >> 7);
    if (a != 0 && b != 0 && term > largest) largest = term;
  }
#pragma unroll
  for (int32 lanes = 16; lanes > 0; lanes /= 2) {
    total += __shfl_xor_sync(ALL_LANES, total, lanes);
    int32 other = __shfl_xor_sync(ALL_LANES, largest, lanes);
    largest = other > largest ? other : largest;
  }
  double sum = __dmul_rn(__ll2double_rn((int64)total), unit);
  // Exponents are 127 less than fields.
  double term = __hiloint2double((largest - 254 + 1023) << 20, 0);
  return sum > term ? sum : term;
}

// largest[0] = the largest bound above the limit, as the bits of a double, zeroed before.
// Pairs are open with (sum sum) factor < both, sums in units of 2^-19, and beyond their
// angles. Blocks of 256 threads on 64 x 64 pairs, 4 x 4 a thread; twins: y is x. Sums are
// below 2 90 127 k < 2^32 for k <= 2^17.
extern "C" __global__ void __launch_bounds__(256)
bound_all(const uint16* x, const int64* x_sums, int64 m, const uint16* y,
          const int64* y_sums, int64 n, int64 k, int32 twins, int32 bits, double limit,
          double factor, double unit_of_squares, double unit_of_sums, uint64* largest) {
  __shared__ Digits left, right;
  __shared__ Rows rows, columns;
  __shared__ double bounds[SIDE * SIDE];
  uint32 across = (uint32)((n + SIDE - 1) / SIDE);
  int64 row = (int64)(blockIdx.x / across) * SIDE;
  int64 column = (int64)(blockIdx.x % across) * SIDE;
  // The ratio of a pair is that of its mirror image.
  if (twins && column < row) return;
  uint32 own_row = threadIdx.x / 16 * 4, own_column = threadIdx.x % 16 * 4;
  uint32 high[4][4] = {}, cross[4][4] = {}, some[4][4] = {};
  for (int64 first = 0; first < k; first += DEPTH) {
    load_digits(left, x, m, k, row, first);
    load_digits(right, y, n, k, column, first);
    __syncthreads();
#pragma unroll 2
    for (int32 c = 0; c < WORDS; c += PITCH) {
      uint4 a = *reinterpret_cast<const uint4*>(left.high + c + own_row);
      uint4 b = *reinterpret_cast<const uint4*>(right.high + c + own_column);
      uint4 p = *reinterpret_cast<const uint4*>(left.low + c + own_row);
      uint4 q = *reinterpret_cast<const uint4*>(right.low + c + own_column);
      uint32 of_rows[2][4] = {{a.x, a.y, a.z, a.w}, {p.x, p.y, p.z, p.w}};
      uint32 of_columns[2][4] = {{b.x, b.y, b.z, b.w}, {q.x, q.y, q.z, q.w}};
#pragma unroll
      for (int32 i = 0; i < 4; ++i) {
#pragma unroll
        for (int32 j = 0; j < 4; ++j) {
          high[i][j] = __dp4a(of_rows[0][i], of_columns[0][j], high[i][j]);
          cross[i][j] = __dp4a(of_rows[0][i], of_columns[1][j], cross[i][j]);
          cross[i][j] = __dp4a(of_rows[1][i], of_columns[0][j], cross[i][j]);
        }
      }
    }
#pragma unroll
    for (int32 i = 0; i < 4; ++i) {
#pragma unroll
      for (int32 j = 0; j < 4; ++j) {
        some[i][j] |= left.some[own_row + i] & right.some[own_column + j];
      }
    }
    __syncthreads();
  }
  if (threadIdx.x < SIDE) {
    uint32 i = threadIdx.x;
    weigh_row(rows, i, x_sums, m, k, row + i, unit_of_squares);
    weigh_row(columns, i, y_sums, n, k, column + i, unit_of_squares);
  }
  __syncthreads();
  bool open = false;
#pragma unroll
  for (uint32 i = 0; i < 4; ++i) {
#pragma unroll
    for (uint32 j = 0; j < 4; ++j) {
      uint32 r = own_row + i, s = own_column + j;
      double sum = __ll2double_rn((int64)(128 * (uint64)high[i][j] + cross[i][j]));
      double both = __dmul_rn(rows.squares[r], columns.squares[s]), bound = 0;
      if (some[i][j] != 0 && __dmul_rn(__dmul_rn(sum, sum), factor) < both &&
          !close_by_angles(rows, r, columns, s, limit)) {
        bound = bound_ratio(both, __dmul_rn(sum, 1.0 / (1 << 19)));
      }
      bounds[r * SIDE + s] = bound;
      open |= bound > 0;
    }
  }
  if (!__syncthreads_or(open)) return;
  uint32 lane = threadIdx.x % 32;
  for (uint32 first = threadIdx.x - lane; first < SIDE * SIDE; first += 256) {
    double own = bounds[first + lane];
    while (true) {
      // Other blocks raise it: what it has passed needs no other look.
      uint64 known = *(const volatile uint64*)largest;
      bool larger = own > __longlong_as_double((int64)known);
      uint32 left_open = __ballot_sync(ALL_LANES, larger);
      if (left_open == 0) break;
      uint32 chosen = __ffs((int32)left_open) - 1;
      if (lane == chosen) own = 0;
      uint32 r = (first + chosen) / SIDE, s = (first + chosen) % SIDE;
      const uint16* one = x + (row + r) * k;
      double lower = sum_terms(one, y + (column + s) * k, k, bits, unit_of_sums);
      double both = __dmul_rn(rows.squares[r], columns.squares[s]);
      double bound = bound_ratio(both, lower);
      if (lane == 0 && bound > limit) {
        atomicMax(largest, (uint64)__double_as_longlong(bound));
      }
    }
  }
}
