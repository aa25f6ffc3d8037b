// Products: int8 planes -> residues of X Y^T modulo every p, one pass, for Hopper.
//
// Must do 2 m n k operations and write m n bytes a product; cuBLAS and requantise move
// 9 m n bytes more. A block makes 128 x 256 residues of one product: its sums never
// leave the registers. The grid is as large as the device and walks over all products;
// while one half of a block reduces its sums, the other one multiplies.
#include "residues.cuh"
#include "ring.cuh"

#define BLOCK_M 128
#define BLOCK_N 256

// residues[q * product_stride + (b * m + i) * row_stride + j], i < m, for each job and
// each matrix b of a stack; 16 divides row_stride and the address, and j goes on to it,
// as do the rows of y, which are 0 from n on. Residues at the same places of `old` are
// added unless it is null; it may be `residues`. x and y map planes, of `stack` matrices
// of x_groups and y_groups times 64 rows each, `steps` tiles along k; table[e] as
// requantise.cu has it. Of a square tile, squares without an element of the triangle are
// left as they are. Clusters of two blocks of 384 threads, any number of them, make the
// squares from `first` to `end` of all jobs of all matrices.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
products(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap y,
         int32 x_groups, int32 y_groups, int32 steps, const Job* jobs, int32 job_count,
         const uint4* table, int64 m, int64 n, const int8* old, int8* residues,
         int64 row_stride, int64 product_stride, int32 triangle, int32 stack,
         int64 first, int64 end) {
  Work work = list_squares(m, n, BLOCK_N, triangle, stack);
  int64 index = first + blockIdx.x / CLUSTER, row, column;
  int32 matrix;
  Job job;
  Tiles tiles;
  Ring ring = open_ring();
  // The next block of this one's, which both roles ask for. The second block of a cluster
  // may lie past the rows: rows of the next matrix or plane, or zeros, are not stored.
  auto advance_block = [&] {
    if (index >= end) return false;
    int64 jobs_before = index / work.count;
    matrix = (int32)(jobs_before / job_count);
    Square square = locate_square(work, (int32)(index % work.count));
    job = jobs[jobs_before % job_count];
    row = (int64)BLOCK_M * (CLUSTER * square.row + ring.rank);
    column = (int64)BLOCK_N * square.column;
    tiles = {(job.left * stack + matrix) * x_groups + (int32)(row / 64),
             (job.right * stack + matrix) * y_groups + (int32)(column / 64), 2, 0};
    index += gridDim.x / CLUSTER;
    return true;
  };
  if (ring.role == 0) {
    give_registers();
    if (threadIdx.x == 0) {
      while (advance_block()) copy_steps(ring, x, y, tiles, steps);
    }
  } else {
    take_registers();
    int32 d[ACCUMULATORS];
    while (advance_block()) {
      uint4 entry = __ldg(table + job.entry);
      int64 own = job.product * product_stride + matrix * m * row_stride;
      multiply_steps(ring, d, x, y, y, tiles, steps,
                     [=](int32 sum) { return reduce_one(sum, entry); });
      store_residues<4>(d, old ? old + own : 0, residues + own, row_stride, m,
                        row + 64 * (ring.role - 1), column,
                        16 * (threadIdx.x >> 5 & 3), entry);
    }
  }
  close_ring();
}
