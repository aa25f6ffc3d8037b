// Products of samples, for Hopper: rows as they lie -> sums of X Y^T, one pass.
//
// The main loop is that of products.cu. Of a block's 256 columns 128 are rows of Y as the
// real part takes them, and 128 the same rows as the imaginary part does; each block of
// a cluster copies one of both tiles. samples.cu has made the rows of another order.
#include "sums.cuh"
#include "ring.cuh"

#define BLOCK_M 128
#define BLOCK_N (256 / PARTS)

// As samples_mma.cu has it. The maps: of x, and of y as each part takes it, rows of all
// matrices one below the other. x_sums: of the bytes of one part of each row of x.
// Clusters of two blocks, any number of them, make the pieces from `first` to `end`.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
samples_wgmma(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap re,
              const __grid_constant__ TensorMap im, const SUM* x_sums, int64 bytes,
              int64 m, int64 n, Sums own, int32 triangle, int32 stack, int64 split,
              int32 shares, int32 adds, int64 first, int64 end) {
  Work work = list_squares(m, n, 256, triangle, stack);
  int32 steps = (int32)((bytes + TILE_K - 1) / TILE_K), count = PARTS * work.count;
  int64 index = first + blockIdx.x / CLUSTER, row, column;
  Piece piece;
  Tiles tiles;
  Ring ring = open_ring();
  // The next piece of this cluster: half a square of pairs. Both roles ask for all.
  auto advance_piece = [&] {
    if (index >= end) return false;
    piece = find_piece(index, count, (int64)count * stack, split, shares, steps, adds);
    index += gridDim.x / CLUSTER;
    Square square = locate_square(work, piece.square / PARTS);
    row = (int64)BLOCK_M * (CLUSTER * square.row + ring.rank);
    column = 256 * (int64)square.column + BLOCK_N * (piece.square % PARTS);
    tiles = {(int32)(piece.matrix * m + row), (int32)(piece.matrix * n + column),
             PARTS == 2 ? 0 : 128, piece.begin};
    return true;
  };
  if (ring.role == 0) {
    give_registers();
    if (threadIdx.x == 0) {
      while (advance_piece()) {
        copy_steps(ring, x, ring.rank ? im : re, tiles, piece.count);
      }
    }
  } else {
    take_registers();
    int32 d[ACCUMULATORS];
    while (advance_piece()) {
      multiply_steps(ring, d, x, re, im, tiles, piece.count,
                     [](int32 sum) { return sum; });
      row += 64 * (ring.role - 1) + 16 * (threadIdx.x >> 5 & 3);
      SUM sums[2] = {};
#pragma unroll
      for (int32 half = 0; PARTS == 2 && half < 2; ++half) {
        int64 i = row + 8 * half + (threadIdx.x >> 2 & 7);
        // Once: what is added to sums has no share of it.
        if (i < m && piece.begin == 0) sums[half] = x_sums[piece.matrix * m + i];
      }
      store_sums<BLOCK_N>(d, sums, own, piece, m, row, [&](int32 j) -> int64 {
        int64 at = column + 8 * j;
        bool wanted = at < own.row_stride && is_wanted(triangle, row, 16, at, 8);
        return wanted ? at : -1;
      });
    }
  }
  close_ring();
}
