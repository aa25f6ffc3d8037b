// Products of magnitudes: their leading digits, sums and largest terms of some pairs, and
// the smallest sum of a matrix; and what sums of rows and columns say of a matrix.
#include "magnitudes.cuh"

// planes[p, row, c], padded with zeros to rows_padded and k_padded, of x[rows, k]: with 0
// digits 1 where x is not 0, else floor(2^6 x) and, of two, the next 7 bits of x. Must
// move 2 bytes and one for each plane. Grid as of scale_and_add.
extern "C" __global__ void __launch_bounds__(256)
take_digits(const uint16* x, int64 rows, int64 k, int8* planes, int64 rows_padded,
            int64 k_padded, int32 digits) {
  int64 c = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= k_padded) return;
  int64 row = (int64)blockIdx.y * blockDim.y + threadIdx.y;
  for (; row < rows_padded; row += (int64)gridDim.y * blockDim.y) {
    uint32 own = row < rows && c < k ? x[row * k + c] : 0;
    uint32 found = scale_magnitude(own, 13);
    int64 at = row * k_padded + c;
    planes[at] = (int8)(digits == 0 ? own != 0 : found >> 7);
    if (digits == 2) planes[rows_padded * k_padded + at] = (int8)(found & 127);
  }
}

// wide or narrow[i, j] = the sum of sums[q, i, j], of three the first times 128, and, of
// wide alone, of what is there if asked. Must move 4 bytes for each sum and those that it
// writes. Grid as of scale_and_add.
extern "C" __global__ void __launch_bounds__(256)
join_digits(const int32* sums, int64 count, int64 rows, int64 columns, int32 add,
            int64* wide, int32* narrow, int64 m, int64 n) {
  int64 j = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= n) return;
  int64 i = (int64)blockIdx.y * blockDim.y + threadIdx.y;
  for (; i < m; i += (int64)gridDim.y * blockDim.y) {
    int64 at = i * n + j;
    const int32* own = sums + i * columns + j;
    int64 total = count == 3 ? (int64)own[0] * 128 : own[0];
    for (int64 q = 1; q < count; ++q) total += own[q * rows * columns];
    if (wide != nullptr) {
      wide[at] = add ? wide[at] + total : total;
    } else {
      narrow[at] = (int32)total;
    }
  }
}

// Lists the pairs with products[i, j]^2 factor < left[i] right[j] as i n + j, in any order,
// each with its product; count[0] is their number, zeroed before, which may be beyond
// what the list holds.
extern "C" __global__ void __launch_bounds__(256)
find_open(const int64* wide, const int32* narrow, int64 m, int64 n, const double* left,
          const double* right, double factor, int64 capacity, uint64* count,
          int64* places, int64* listed) {
  int64 j = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= n) return;
  int64 i = (int64)blockIdx.y * blockDim.y + threadIdx.y;
  for (; i < m; i += (int64)gridDim.y * blockDim.y) {
    int64 at = i * n + j;
    int64 product = wide != nullptr ? wide[at] : narrow[at];
    double own = (double)product, square = __dmul_rn(__dmul_rn(own, own), factor);
    if (square < __dmul_rn(left[i], right[j])) {
      uint64 place = atomicAdd(count, (uint64)1);
      if (place < (uint64)capacity) {
        places[place] = at;
        listed[place] = product;
      }
    }
  }
}

// sums[p] += sum(floor(x 2^bits) floor(y 2^bits)), below 2^63, and terms[p] = the largest
// sum of the fields where neither is 0, of rows[p] of x and columns[p] of y; both zeroed
// before. A warp for each pair: order-free and exact.
extern "C" __global__ void __launch_bounds__(256)
bound_pairs(const uint16* x, const uint16* y, int64 k, int64 count, const int64* rows,
            const int64* columns, int32 bits, uint64* sums, int32* terms) {
  int64 p = (int64)blockIdx.x * blockDim.y + threadIdx.y;
  if (p >= count) return;
  const uint16* own = x + rows[p] * k;
  const uint16* other = y + columns[p] * k;
  uint64 total = 0;
  int32 largest = 0;
  for (int64 c = threadIdx.x; c < k; c += blockDim.x) {
    uint32 a = own[c], b = other[c];
    total += (uint64)scale_magnitude(a, bits) * scale_magnitude(b, bits);
    int32 term = (int32)(a >> 7) + (int32)(b >> 7);
    if (a != 0 && b != 0 && term > largest) largest = term;
  }
  if (total != 0) atomicAdd(sums + p, total);
  if (largest != 0) atomicMax(terms + p, largest);
}

// The bits of the smallest cosine that a thread finds among the rows of a matrix, and of
// 1. Bits of numbers that are not negative are in their order.
__device__ __forceinline__ uint64 smallest_cosine(const int64* squares,
                                                  const int64* totals, int64 rows,
                                                  int64 k) {
  double smallest = 1;
  for (int64 row = threadIdx.x; row < rows; row += 256) {
    if (squares[row] == 0) continue;
    double cosine = find_cosine(squares[row], totals[row], k);
    smallest = cosine < smallest ? cosine : smallest;
  }
  return (uint64)__double_as_longlong(smallest);
}

// 2^e for e <= 0, in units of 2^-bits, rounded up.
__device__ __forceinline__ uint64 count_units(int32 e, int32 bits) {
  return (uint64)1 << (e + bits > 0 ? e + bits : 0);
}

// cosines[side, z] = the smallest of the rows of matrix z of both operands; sums[i, z] =
// sum(2^(2 a)), sum(2^(2 b)), sum(2^(a + b)) over the columns that are not 0, a and b
// being extremes[z, 0, column] of norms.cu. One block a matrix; the second operand may be
// missing, its rows be none, and the extremes be null.
extern "C" __global__ void __launch_bounds__(256)
summarise(const int64* x_squares, const int64* x_totals, int64 x_rows,
          const int64* y_squares, const int64* y_totals, int64 y_rows,
          const int32* x_extremes, const int32* y_extremes, int64 k, int32 bits,
          double* cosines, uint64* sums) {
  // Reduced by halves: atomics of 64 bits took turns, 28 us of an H100 for 1024 rows.
  __shared__ uint64 found[5][256];
  uint64 z = blockIdx.z, count = gridDim.z;
  uint64 own[5] = {0, 0, 0};
  own[3] = smallest_cosine(x_squares + z * x_rows, x_totals + z * x_rows, x_rows, k);
  own[4] = smallest_cosine(y_squares + z * y_rows, y_totals + z * y_rows, y_rows, k);
  if (x_extremes != nullptr) {
    for (int64 c = threadIdx.x; c < k; c += 256) {
      int32 a = x_extremes[z * 3 * k + c], b = y_extremes[z * 3 * k + c];
      bool some = a != ZERO_ROW, others = b != ZERO_ROW;
      if (some) own[0] += count_units(2 * a, bits);
      if (others) own[1] += count_units(2 * b, bits);
      if (some && others) own[2] += count_units(a + b, bits);
    }
  }
#pragma unroll
  for (int32 i = 0; i < 5; ++i) found[i][threadIdx.x] = own[i];
  for (uint32 half = 128; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x >= half) continue;
#pragma unroll
    for (int32 i = 0; i < 5; ++i) {
      uint64 other = found[i][threadIdx.x + half];
      own[i] = i < 3 ? own[i] + other : other < own[i] ? other : own[i];
      found[i][threadIdx.x] = own[i];
    }
  }
  if (threadIdx.x > 0) return;
  for (int32 i = 0; i < 3 && sums != nullptr; ++i) sums[i * count + z] = own[i];
  for (int32 i = 0; i < (y_rows > 0 ? 2 : 1); ++i) {
    cosines[i * count + z] = __longlong_as_double((int64)own[3 + i]);
  }
}

// largest[z] = the largest of x[z, 0 ... m] and y[z, 0 ... n]. One block a matrix.
extern "C" __global__ void __launch_bounds__(256)
largest_sums(const uint64* x, int64 m, const uint64* y, int64 n, uint64* largest) {
  __shared__ uint64 found;
  if (threadIdx.x == 0) found = 0;
  __syncthreads();
  x += blockIdx.z * m;
  y += blockIdx.z * n;
  uint64 own = 0;
  for (int64 i = threadIdx.x; i < m; i += 256) own = x[i] > own ? x[i] : own;
  for (int64 i = threadIdx.x; i < n; i += 256) own = y[i] > own ? y[i] : own;
  if (own != 0) atomicMax(&found, own);
  __syncthreads();
  if (threadIdx.x == 0) largest[blockIdx.z] = found;
}

#define SIDE 64
#define DEPTH 32
// Words from one k to the next: multiples of 16 bytes that lie in different banks.
#define PITCH 68

// The numbers of 64 rows and 32 entries along k; zeros where there are none.
__device__ __forceinline__ void load_numbers(float (&held)[DEPTH * PITCH],
                                             const float* x, int64 rows, int64 k,
                                             int64 first_row, int64 first) {
  int64 c = first + threadIdx.x % DEPTH;
#pragma unroll
  for (int32 i = threadIdx.x / DEPTH; i < SIDE; i += 256 / DEPTH) {
    int64 row = first_row + i;
    held[threadIdx.x % DEPTH * PITCH + i] = row < rows && c < k ? x[row * k + c] : 0;
  }
}

// The smallest sum(x y) of each matrix of a stack over all pairs but those with a NaN;
// filled with large numbers before. Blocks of 256 threads on 64 x 64 pairs, 4 x 4 a
// thread. Sums of k numbers that are not negative are off by k 2^-24 of themselves; a
// BLAS may be set to round more.
extern "C" __global__ void __launch_bounds__(256)
smallest_sums(const float* x, int64 m, const float* y, int64 n, int64 k,
              uint32* smallest) {
  alignas(16) __shared__ float left[DEPTH * PITCH], right[DEPTH * PITCH];
  x += blockIdx.z * m * k;
  y += blockIdx.z * n * k;
  uint32 across = (uint32)((n + SIDE - 1) / SIDE);
  int64 row = (int64)(blockIdx.x / across) * SIDE;
  int64 column = (int64)(blockIdx.x % across) * SIDE;
  uint32 own_row = threadIdx.x / 16 * 4, own_column = threadIdx.x % 16 * 4;
  float total[4][4] = {};
  for (int64 first = 0; first < k; first += DEPTH) {
    load_numbers(left, x, m, k, row, first);
    load_numbers(right, y, n, k, column, first);
    __syncthreads();
#pragma unroll 2
    for (int32 c = 0; c < DEPTH; ++c) {
      float4 a = *reinterpret_cast<const float4*>(left + c * PITCH + own_row);
      float4 b = *reinterpret_cast<const float4*>(right + c * PITCH + own_column);
      float of_rows[4] = {a.x, a.y, a.z, a.w}, of_columns[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int32 i = 0; i < 4; ++i) {
#pragma unroll
        for (int32 j = 0; j < 4; ++j) {
          total[i][j] = __fmaf_ieee_rn(of_rows[i], of_columns[j], total[i][j]);
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int32 i = 0; i < 4; ++i) {
#pragma unroll
    for (int32 j = 0; j < 4; ++j) {
      // Their bits are in the order of the numbers, those of NaNs last.
      bool inside = row + own_row + i < m && column + own_column + j < n;
      if (inside) atomicMin(smallest + blockIdx.z, __float_as_uint(total[i][j]));
    }
  }
}
