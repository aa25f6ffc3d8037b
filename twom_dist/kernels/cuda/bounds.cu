// Products of magnitudes of all pairs of rows: sums of integers, largest terms, and the
// smallest sum of a matrix.
//
// Blocks of 256 threads on 64 x 64 pairs, 4 x 4 a thread, and on a piece of `span` along
// k, a multiple of 32. What they find is added, or its maximum taken, by atomics: order
// free and exact. Computed: one multiply-add of 32 x 32 + 64 bits a term, 64 a clock and
// multiprocessor, are 10 us for 128 x 128 x 8192 on an H200.
#include "arithmetic.cuh"

#define SIDE 64
#define DEPTH 32
// Words from one k to the next: multiples of 16 bytes that lie in different banks.
#define PITCH 68

// sum(floor(x 2^bits) floor(y 2^bits)): below 2^53 in total, so `bits` is 20 or less.
struct Sums {
  typedef uint16 Element;
  typedef uint64 Total;
  static const int32 UNROLLED = 8;
  static __device__ __forceinline__ Total start() { return 0; }
  static __device__ __forceinline__ uint32 digit(uint32 x, int32 bits) {
    // x is (128 + its low 7 bits) 2^(field - 134), below 2: a digit has 21 bits.
    int32 left = (int32)(x >> 7) - 134 + bits;
    uint32 significand = (x & 127) | 128;
    if (left >= 0) return significand << left;
    return left < -31 ? 0 : significand >> -left;
  }
  static __device__ __forceinline__ Total add(Total total, uint32 x, uint32 y) {
    return total + (uint64)x * y;
  }
  static __device__ __forceinline__ void put(uint64* out, int64 at, Total total) {
    if (total != 0) atomicAdd(out + at, total);
  }
};

// max(exponent of x + exponent of y), where neither is 0.
struct Terms {
  typedef uint16 Element;
  typedef int32 Total;
  static const int32 UNROLLED = 8;
  static const int32 NOTHING = -(1 << 20);
  static __device__ __forceinline__ Total start() { return NOTHING; }
  static __device__ __forceinline__ uint32 digit(uint32 x, int32) {
    return (uint32)(x == 0 ? NOTHING : (int32)(x >> 7) - 127);
  }
  static __device__ __forceinline__ Total add(Total total, uint32 x, uint32 y) {
    int32 term = (int32)x + (int32)y;
    return term > total ? term : total;
  }
  static __device__ __forceinline__ void put(int32* out, int64 at, Total total) {
    if (total > NOTHING / 2) atomicMax(out + at, total);
  }
};

// min(sum(x y)) over all pairs but those with a NaN. Sums of k numbers that are not
// negative are off by k 2^-24 of themselves; a BLAS may be set to round more.
struct Smallest {
  typedef float Element;
  typedef float Total;
  static const int32 UNROLLED = 2;  // with 8 it takes 137 registers
  static __device__ __forceinline__ Total start() { return 0; }
  static __device__ __forceinline__ uint32 digit(float x, int32) {
    return __float_as_uint(x);
  }
  static __device__ __forceinline__ Total add(Total total, uint32 x, uint32 y) {
    return __fmaf_ieee_rn(__uint_as_float(x), __uint_as_float(y), total);
  }
  // Their bits are in the order of the numbers, those of NaNs last.
  static __device__ __forceinline__ void put(uint32* out, int64, Total total) {
    atomicMin(out, __float_as_uint(total));
  }
};

// The digits of 64 rows and 32 entries along k; zeros where there are none.
template <class Rule>
__device__ __forceinline__ void load_digits(uint32 (&held)[DEPTH * PITCH],
                                            const typename Rule::Element* x,
                                            int64 rows, int64 k,
                                            int64 first_row, int64 first, int64 last,
                                            int32 bits) {
  int64 c = first + threadIdx.x % DEPTH;
#pragma unroll
  for (int32 i = threadIdx.x / DEPTH; i < SIDE; i += 256 / DEPTH) {
    int64 row = first_row + i;
    typename Rule::Element own = row < rows && c < last ? x[row * k + c] : 0;
    held[threadIdx.x % DEPTH * PITCH + i] = Rule::digit(own, bits);
  }
}

template <class Rule, class Out>
__device__ __forceinline__ void bound_pairs(const typename Rule::Element* x, int64 m,
                                            const typename Rule::Element* y, int64 n,
                                            int64 k, int64 span, int32 bits, Out* out) {
  alignas(16) __shared__ uint32 left[DEPTH * PITCH], right[DEPTH * PITCH];
  uint32 across = (uint32)((n + SIDE - 1) / SIDE);
  int64 row = (int64)(blockIdx.x / across) * SIDE;
  int64 column = (int64)(blockIdx.x % across) * SIDE;
  int64 begin = blockIdx.y * span, last = begin + span < k ? begin + span : k;
  uint32 own_row = threadIdx.x / 16 * 4, own_column = threadIdx.x % 16 * 4;
  typename Rule::Total total[4][4];
#pragma unroll
  for (int32 i = 0; i < 4; ++i) {
#pragma unroll
    for (int32 j = 0; j < 4; ++j) total[i][j] = Rule::start();
  }
  for (int64 first = begin; first < last; first += DEPTH) {
    load_digits<Rule>(left, x, m, k, row, first, last, bits);
    load_digits<Rule>(right, y, n, k, column, first, last, bits);
    __syncthreads();
#pragma unroll(Rule::UNROLLED)
    for (int32 c = 0; c < DEPTH; ++c) {
      uint4 a = *reinterpret_cast<const uint4*>(left + c * PITCH + own_row);
      uint4 b = *reinterpret_cast<const uint4*>(right + c * PITCH + own_column);
      uint32 of_rows[4] = {a.x, a.y, a.z, a.w}, of_columns[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int32 i = 0; i < 4; ++i) {
#pragma unroll
        for (int32 j = 0; j < 4; ++j) {
          total[i][j] = Rule::add(total[i][j], of_rows[i], of_columns[j]);
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int32 i = 0; i < 4; ++i) {
#pragma unroll
    for (int32 j = 0; j < 4; ++j) {
      int64 at = row + own_row + i, to = column + own_column + j;
      if (at < m && to < n) Rule::put(out, at * n + to, total[i][j]);
    }
  }
}

// sums[i * n + j] of rows i of x and j of y, zeroed before.
extern "C" __global__ void __launch_bounds__(256)
multiply_magnitudes(const uint16* x, int64 m, const uint16* y, int64 n, int64 k,
                    int64 span, int32 bits, uint64* sums) {
  bound_pairs<Sums>(x, m, y, n, k, span, bits, sums);
}

// terms[i * n + j] likewise, filled with ZERO_ROW before, which stays where all are 0.
extern "C" __global__ void __launch_bounds__(256)
largest_terms(const uint16* x, int64 m, const uint16* y, int64 n, int64 k, int64 span,
              int32* terms) {
  bound_pairs<Terms>(x, m, y, n, k, span, 0, terms);
}

// The smallest sum of each matrix of a stack, whose k is in one piece; filled with large
// numbers before.
extern "C" __global__ void __launch_bounds__(256)
smallest_sums(const float* x, int64 m, const float* y, int64 n, int64 k,
              uint32* smallest) {
  int64 matrix = blockIdx.z;
  bound_pairs<Smallest>(x + matrix * m * k, m, y + matrix * n * k, n, k, k, 0,
                        smallest + matrix);
}
