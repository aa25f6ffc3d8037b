// Products: int8 planes -> residues of X Y^T modulo every p, one pass, for Hopper.
//
// Must do 2 m n k operations and write m n bytes a product; cuBLAS and requantise move
// 9 m n bytes more. A block makes 128 x 256 residues of one product: its sums never
// leave the registers. The grid is as large as the device and walks over all products;
// while one half of a block reduces its sums, the other one multiplies.
#include "arithmetic.cuh"
#include "ring.cuh"

#define BLOCK_M 128
#define BLOCK_N 256
// Rows of squares that the grid walks down before it takes the next column: L2 serves
// what 8 x 8 squares share. 4 and 16 rows were 0 to 6 % slower on an H200.
#define BAND 8

// Planes of a product's operands, which residues it makes, and what reduces them.
struct Job {
  int32 left, right, product, entry;
};

// What a cluster makes: 256 x 256 residues, one block's above the other's.
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
  Square square = {first + index % height, index / height};
  return square;
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

// What the clusters walk over: `count` squares of each job of each matrix of a stack.
struct Work {
  int32 rows, columns, triangle, count, stack;
};

__device__ __forceinline__ Work list_squares(int64 m, int64 n, int32 triangle,
                                             int32 stack) {
  const int32 side = CLUSTER * BLOCK_M;
  int32 rows = (int32)((m + side - 1) / side), columns = (int32)((n + side - 1) / side);
  int32 count = triangle == FULL ? rows * columns : rows * (rows + 1) / 2;
  Work work = {rows, columns, triangle, count, stack};
  return work;
}

__device__ __forceinline__ Square locate_square(const Work& work, int32 index) {
  if (work.triangle == FULL) return square_of_bands(index, work.rows, work.columns);
  Square square = square_of_triangle(index, work.rows);
  if (work.triangle == LOWER) return square;
  Square mirrored = {square.column, square.row};
  return mirrored;
}

// A thread's sums belong to slots 8 j + 2 t + b of 64 columns, t = lane mod 4, b < 2.
// The copies put row 16 t + 2 j + b there: 16 neighbours a thread, one store. Rows of X
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

// Write the residues of a thread's sums and the `old` ones, if there are any: 64 x 256
// from `row`, `column` on for each 128 threads. The old ones are read first, since they
// may lie where the new ones are written.
__device__ __forceinline__ void store_residues(int32 (&d)[ACCUMULATORS],
                                               const int8* old, int8* residues,
                                               int64 row_stride, int64 m, int64 row,
                                               int64 column, uint4 entry) {
  int32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
#pragma unroll
  for (int32 half = 0; half < 2; ++half) {
    int64 i = row + row_of_slot(16 * warp + 8 * half + (lane >> 2));
    if (i >= m) continue;
    int64 first = column + 16 * (lane & 3), place = i * row_stride + first;
    if (old) {
#pragma unroll
      for (int32 g = 0; g < 4; ++g) {
        if (first + 64 * g >= row_stride) continue;
        const int8* source = old + place + 64 * g;
        add_sixteen(d + 32 * g + 2 * half, *reinterpret_cast<const uint4*>(source));
      }
    }
#pragma unroll
    for (int32 g = 0; g < 4; ++g) {
      if (first + 64 * g >= row_stride) continue;
      uint4 found = reduce_sixteen(d + 32 * g + 2 * half, entry);
      *reinterpret_cast<uint4*>(residues + place + 64 * g) = found;
    }
  }
}

// The next block of this one's, from `index` on: its job, its matrix, its first row and
// column and where their tiles begin; false past the end. The second block of a cluster
// may lie past the rows: there lie rows of the next matrix or plane, or zeros, which are
// not stored.
__device__ __forceinline__ bool next_block(const Work& work, const Job* jobs,
                                           int32 job_count, int32 x_groups,
                                           int32 y_groups, uint32 rank, int64& index,
                                           Job& job, int32& matrix, int64& row,
                                           int64& column, Tiles& tiles) {
  int64 jobs_before = index / work.count;
  matrix = (int32)(jobs_before / job_count);
  if (matrix >= work.stack) return false;
  Square square = locate_square(work, (int32)(index % work.count));
  job = jobs[jobs_before % job_count];
  row = (int64)BLOCK_M * (CLUSTER * square.row + rank);
  column = (int64)BLOCK_N * square.column;
  tiles.left = (job.left * work.stack + matrix) * x_groups + (int32)(row / 64);
  tiles.right = (job.right * work.stack + matrix) * y_groups + (int32)(column / 64);
  index += gridDim.x / CLUSTER;
  return true;
}

// residues[q * product_stride + (b * m + i) * row_stride + j], i < m, for each job and
// each matrix b of a stack; 16 divides row_stride and the address, and j goes on to it,
// as do the rows of y, which are 0 from n on. Residues at the same places of `old` are
// added unless it is null; it may be `residues`. x and y map planes, of `stack` matrices
// of x_groups and y_groups times 64 rows each, `steps` tiles along k; table[e] as
// requantise.cu has it. Of a square tile, squares without an element of the triangle are
// left as they are. Clusters of two blocks of 384 threads, any number of them.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
products(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap y,
         int32 x_groups, int32 y_groups, int32 steps, const Job* jobs, int32 job_count,
         const uint4* table, int64 m, int64 n, const int8* old, int8* residues,
         int64 row_stride, int64 product_stride, int32 triangle, int32 stack) {
  Work work = list_squares(m, n, triangle, stack);
  int64 index = blockIdx.x / CLUSTER, row, column;
  int32 matrix;
  Job job;
  Tiles tiles;
  Ring ring = open_ring();
  if (ring.role == 0) {
    give_registers();
    if (threadIdx.x == 0) {
      while (next_block(work, jobs, job_count, x_groups, y_groups, ring.rank, index, job,
                        matrix, row, column, tiles)) {
        copy_steps(ring, x, y, tiles, steps);
      }
    }
  } else {
    take_registers();
    int32 d[ACCUMULATORS];
    while (next_block(work, jobs, job_count, x_groups, y_groups, ring.rank, index, job,
                      matrix, row, column, tiles)) {
      uint4 entry = __ldg(table + job.entry);
      multiply_steps(ring, d, x, y, tiles, steps, entry);
      int64 own = job.product * product_stride + matrix * m * row_stride;
      store_residues(d, old ? old + own : 0, residues + own, row_stride, m,
                     row + 64 * (ring.role - 1), column, entry);
    }
  }
  close_ring();
}
