// The squares of products that a grid walks over, and the bytes that are multiplied: of
// the types LEFT and RIGHT, s8 or u8, in X and in Y.
#include "arithmetic.cuh"

typedef int8 s8;
typedef uint8 u8;
#ifndef LEFT
#define LEFT s8
#define RIGHT s8
#endif
#define TEXT(x) #x
#define NAME(x) TEXT(x)

// Rows of squares that the grid walks down before it takes the next column: L2 serves
// what 8 x 8 squares share. 4 and 16 rows were 0 to 6 % slower on an H200.
#define BAND 8

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
