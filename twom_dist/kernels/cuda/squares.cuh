// The squares of products that a grid walks over, and how their sums are reduced and
// stored: products.cu and products_mma.cu.
//
// Macros: none for residues. Of samples SUM, int32 or int64: sums are residues as they
// wrap, times the sign that their table has; and LEFT and RIGHT, the types of the
// samples of X and of Y, s8 or u8.
#include "arithmetic.cuh"

#ifdef SUM
typedef SUM Residue;
#else
typedef int8 Residue;
#define LEFT s8
#define RIGHT s8
#endif
#define TEXT(x) #x
#define NAME(x) TEXT(x)

// Sums that become int64 are made in panels along k, which int32 holds:
// 2^15 255 255 < 2^31.
#define IN_PANELS (sizeof(Residue) == 8)

// Tiles of `bytes` along k of the panel that begins at `done` of `steps`.
__device__ __forceinline__ int32 count_steps(int32 steps, int32 done, int32 bytes) {
  int32 most = (1 << 15) / bytes, rest = steps - done;
  return IN_PANELS && rest > most ? most : rest;
}

// Rows of squares that the grid walks down before it takes the next column: L2 serves
// what 8 x 8 squares share. 4 and 16 rows were 0 to 6 % slower on an H200.
#define BAND 8

// Planes of a product's operands, which residues it makes, and what reduces them.
struct Job {
  int32 left, right, product, entry;
};

// What one block, or a cluster of two, makes of a product.
struct Square {
  int32 row, column;
};

__device__ __forceinline__ int32 band_height(int32 first, int32 rows) {
  return rows - first < BAND ? rows - first : BAND;
}

__device__ __forceinline__ Square square_of_bands(int32 index, int32 rows,
                                                  int32 columns) {
  int32 first = index / (BAND * columns) * BAND, height = band_height(first, rows);
  index -= first * columns;
  return {first + index % height, index / height};
}

// Bands of the lower triangle: whole columns, then those that begin at the diagonal.
__device__ __forceinline__ Square square_of_triangle(int32 index, int32 rows) {
  int32 first = 0, height, whole, count;
  for (;; index -= count, first += height) {
    height = band_height(first, rows);
    whole = height * first;
    count = whole + height * (height + 1) / 2;
    if (index < count) break;
  }
  Square square = {first + index % height, index / height};
  if (index >= whole) {
    index -= whole;
    for (square.column = first; index >= height; ++square.column) index -= height--;
    square.row = square.column + index;
  }
  return square;
}

// What grids walk over: `count` squares of each job of each matrix of a stack.
struct Work {
  int32 rows, columns, triangle, count, stack;
};

__device__ __forceinline__ Work list_squares(int64 m, int64 n, int32 side,
                                             int32 triangle, int32 stack) {
  int32 rows = (int32)((m + side - 1) / side), columns = (int32)((n + side - 1) / side);
  int32 count = triangle == FULL ? rows * columns : rows * (rows + 1) / 2;
  return {rows, columns, triangle, count, stack};
}

__device__ __forceinline__ Square locate_square(const Work& work, int32 index) {
  if (work.triangle == FULL) return square_of_bands(index, work.rows, work.columns);
  Square square = square_of_triangle(index, work.rows);
  if (work.triangle == UPPER) return {square.column, square.row};
  return square;
}

// A thread's sums belong to slots 8 j + 2 t + b of 64 columns, t = lane mod 4, b < 2.
// Row 16 t + 2 j + b is taken there: 16 neighbours a thread, one store. Rows of X
// come in the same order, so that one operand can be both.
__device__ __forceinline__ int32 row_of_slot(int32 slot) {
  return (slot >> 1 & 3) << 4 | (slot >> 3) << 1 | (slot & 1);
}

// The residues of 16 neighbours, whose sums lie in pairs 4 apart.
__device__ __forceinline__ uint4 reduce_sixteen(const int32* d, uint4 entry) {
  uint32 word[4];
#pragma unroll
  for (int32 t = 0; t < 4; ++t) {
    const int32* own = d + 8 * t;
    word[t] = pack_bytes(reduce_sum(own[0], entry), reduce_sum(own[1], entry),
                         reduce_sum(own[4], entry), reduce_sum(own[5], entry));
  }
  return make_uint4(word[0], word[1], word[2], word[3]);
}

__device__ __forceinline__ void add_sixteen(int32* d, uint4 old) {
  uint32 word[4] = {old.x, old.y, old.z, old.w};
#pragma unroll
  for (int32 t = 0; t < 4; ++t) {
#pragma unroll
    for (int32 b = 0; b < 4; ++b) {
      d[8 * t + 4 * (b >> 1) + (b & 1)] += (int8)(word[t] >> 8 * b);
    }
  }
}

__device__ __forceinline__ int32 reduce_one(int32 sum, uint4 entry) {
#ifndef SUM
  sum = (int8)reduce_sum(sum, entry);
#endif
  return sum;
}

// Reduce sums in place, to something equal modulo p.
template <int32 COUNT>
__device__ __forceinline__ void reduce_all(int32 (&d)[COUNT], uint4 entry) {
#pragma unroll
  for (int32 i = 0; i < COUNT; ++i) d[i] = reduce_one(d[i], entry);
}

#ifdef SUM
struct alignas(16) Words {
  SUM word[16 / sizeof(SUM)];
};

// Write 16 neighbours' sums, which lie as `reduce_sixteen` has them.
__device__ __forceinline__ void store_sixteen(const int32* d, const SUM* old, SUM* out,
                                              uint4 entry) {
  const int32 count = 16 / sizeof(SUM);
#pragma unroll
  for (int32 first = 0; first < 16; first += count) {
    Words words = {};
    if (old) words = *reinterpret_cast<const Words*>(old + first);
#pragma unroll
    for (int32 i = 0; i < count; ++i) {
      int32 at = first + i, sum = d[8 * (at >> 2) + 4 * (at >> 1 & 1) + (at & 1)];
      SUM signed_sum = (int32)((uint32)sum * entry.x);
      words.word[i] = (SUM)((uint64)words.word[i] + (uint64)signed_sum);
    }
    *reinterpret_cast<Words*>(out + first) = words;
  }
}
#endif

// Write the residues of a warp's sums and the `old` ones, if there are any: the 16 slots
// from `slot` on of the 64 rows from `row` on, and GROUPS times 64 columns. The old ones
// are read first, since they may lie where the new ones are written.
template <int32 GROUPS>
__device__ __forceinline__ void store_residues(int32* d, const Residue* old,
                                               Residue* residues, int64 row_stride,
                                               int64 m, int64 row, int64 column,
                                               int32 slot, uint4 entry) {
  int32 lane = threadIdx.x & 31;
#pragma unroll
  for (int32 half = 0; half < 2; ++half) {
    int64 i = row + row_of_slot(slot + 8 * half + (lane >> 2));
    if (i >= m) continue;
    int64 first = column + 16 * (lane & 3), place = i * row_stride + first;
#ifdef SUM
#pragma unroll
    for (int32 g = 0; g < GROUPS; ++g) {
      if (first + 64 * g >= row_stride) continue;
      int64 own = place + 64 * g;
      store_sixteen(d + 32 * g + 2 * half, old ? old + own : 0, residues + own, entry);
    }
#else
    if (old) {
#pragma unroll
      for (int32 g = 0; g < GROUPS; ++g) {
        if (first + 64 * g >= row_stride) continue;
        const int8* source = old + place + 64 * g;
        add_sixteen(d + 32 * g + 2 * half, *reinterpret_cast<const uint4*>(source));
      }
    }
#pragma unroll
    for (int32 g = 0; g < GROUPS; ++g) {
      if (first + 64 * g >= row_stride) continue;
      uint4 found = reduce_sixteen(d + 32 * g + 2 * half, entry);
      *reinterpret_cast<uint4*>(residues + place + 64 * g) = found;
    }
#endif
  }
}
