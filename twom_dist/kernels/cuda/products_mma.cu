// Products: int8 planes -> residues of X Y^T modulo every p, one pass, by mma.sync.
// products.cu is Hopper's, but for small matrices.
//
// Must do 2 m n k operations and write m n bytes a product. A block of SIDE threads makes
// SIDE x SIDE residues of one product, 128 or 64, a warp SIDE / 2 x 64: its sums never
// leave the registers. Two blocks a multiprocessor: one multiplies while the other one
// reduces or waits.
#include "residues.cuh"
#define PARTS 1
#include "steps.cuh"

// What multiply_steps asks for: rows of Y as they are, and sums reduced modulo p.
struct Reading {
  uint4 entry;
  int32 below, aside;  // where the warp's rows begin

  __device__ __forceinline__ int32 find_row(int32 slot) { return below + row_of_slot(slot); }
  __device__ __forceinline__ int32 find_column(int32 slot) {
    return aside + row_of_slot(slot);
  }

  template <class Load>
  __device__ __forceinline__ void operator()(const Matrices (&)[FRAGMENTS],
                                             Matrices (&right)[4], Load load) {
#pragma unroll
    for (int32 i = 0; i < 4; ++i) right[i] = load(i);
  }

  template <bool WHOLE>
  __device__ __forceinline__ void multiply(int32* d, const Matrices& left,
                                           const Matrices (&right)[4], int32, int32 j) {
    multiply_rows(d + 8 * j, left, right[j], 0);
    multiply_rows(d + 8 * j + 4, left, right[j], 2);
  }

  __device__ __forceinline__ int32 reduce(int32 sum) { return reduce_one(sum, entry); }
};

// As products.cu has it: residues[q * product_stride + (b * m + i) * row_stride + j],
// i < m, for each job and each matrix b of a stack; 16 divides row_stride and the
// address, and j goes on to it, as do the rows of y, which are 0 from n on. Residues at
// the same places of `old` are added unless it is null; it may be `residues`. x and y are
// planes of `stack` matrices of x_rows and y_rows rows of k bytes each; 64 divides the
// rows, TILE_K divides k. Of a square tile, squares without an element of the triangle
// are left as they are. A block of SIDE threads for each square, from `first` of all jobs of
// all matrices on.
extern "C" __global__ void __launch_bounds__(128, 2)
products_mma(const int8* x, const int8* y, int64 x_rows, int64 y_rows, int64 k,
             const Job* jobs, int32 job_count, const uint4* table, int64 m, int64 n,
             const int8* old, int8* residues, int64 row_stride, int64 product_stride,
             int32 triangle, int32 stack, int64 first) {
  Work work = list_squares(m, n, SIDE, triangle, stack);
  int64 index = first + blockIdx.x;
  int32 before = (int32)(index / work.count), matrix = before / job_count;
  Square square = locate_square(work, (int32)(index % work.count));
  Job job = jobs[before % job_count];
  int64 row = (int64)SIDE * square.row, column = (int64)SIDE * square.column;
  Rows left = find_rows(x, (int64)job.left * stack + matrix, x_rows, row, k, 0);
  Rows right = find_rows(y, (int64)job.right * stack + matrix, y_rows, column, k, 0);
  // A warp's slots are 64 or, where two share them, 32: 8 of each 16 rows.
  int32 warp = threadIdx.x >> 5, below = warp / WARPS_A_ROW * (SIDE == 64 ? 8 : 64);
  int32 aside = warp % WARPS_A_ROW * 64, d[SIDE];
  bool idle = row + below >= m || column + aside >= row_stride;
  Reading reading = {__ldg(table + job.entry), below, aside};
  multiply_steps(d, left, right, (int32)(k / TILE_K), k, idle, !idle, reading);
  if (idle) return;
  int64 own = job.product * product_stride + matrix * m * row_stride;
#pragma unroll
  for (int32 i = 0; i < FRAGMENTS; ++i) {
    store_residues<1>(d + 32 * i, old ? old + own : 0, residues + own, row_stride, m,
                      row + below, column + aside, 16 * i, reading.entry);
  }
}
