// Products: int8 planes -> residues of X Y^T modulo every p, one pass, by mma.sync.
// products.cu is Hopper's, but for small matrices.
//
// Must do 2 m n k operations and write m n bytes a product. A block of SIDE threads makes
// SIDE x COLUMNS residues of one product: 256 x 128, 128 x 128 or 64 x 64. A warp makes 64
// x 64 of them, or 32 x 64 of the smallest squares: its sums never leave the registers. A
// multiprocessor has two blocks of 128 x 128: one multiplies while the other one reduces
// or waits.
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
// rows, TILE_K divides k. Of a square tile, what a warp makes is left as it is if none of
// it lies in the triangle. SIDE / COLUMNS blocks of SIDE threads for each square, from
// `first` of all jobs of all matrices on.
extern "C" __global__ void __launch_bounds__(256, 1)
products_mma(const int8* x, const int8* y, int64 x_rows, int64 y_rows, int64 k,
             const Job* jobs, int32 job_count, const uint4* table, int64 m, int64 n,
             const int8* old, int8* residues, int64 row_stride, int64 product_stride,
             int32 triangle, int32 stack, int64 first) {
  Work work = list_squares(m, n, SIDE, triangle, stack);
  int64 index = first + blockIdx.x / (SIDE / COLUMNS);
  int32 before = (int32)(index / work.count), matrix = before / job_count;
  Square square = locate_square(work, (int32)(index % work.count));
  Job job = jobs[before % job_count];
  int64 row = (int64)SIDE * square.row, column = (int64)SIDE * square.column;
  column += COLUMNS * (blockIdx.x % (SIDE / COLUMNS));
  if (SIDE > COLUMNS && column >= row_stride) return;
  Rows left = find_rows(x, (int64)job.left * stack + matrix, x_rows, row, k, 0);
  Rows right = find_rows(y, (int64)job.right * stack + matrix, y_rows, column, k, 0);
  // A warp's slots are 64 or, where two share them, 32: 8 of each 16 rows.
  int32 warp = threadIdx.x >> 5, below = warp / WARPS_A_ROW * (SIDE == 64 ? 8 : 64);
  int32 aside = warp % WARPS_A_ROW * 64, d[COLUMNS];
  bool idle = row + below >= m || column + aside >= row_stride ||
              !is_wanted(triangle, row + below, 64, column + aside, 64);
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
