// Products of samples, by mma.sync: rows as they lie -> sums of X Y^T, one pass.
// samples_wgmma.cu is Hopper's, but for small matrices.
//
// Must do 2 m n k operations a part, twice as many of pairs, and read each row once. A
// block of SIDE PARTS threads makes SIDE x SIDE sums of each part, and Y's bytes in the
// other order in its registers.
#include "sums.cuh"
#include "steps.cuh"

// What multiply_steps asks for: Y's rows as both parts take them, and sums of X's rows.
struct Turning {
  int32 below, aside;  // the warp's place: 0 or 1, and the one of those side by side
  uint32 wanted;       // a bit for each 16 rows and WIDTH columns
  uint32 halved;       // those of which only rows 8 to 15, the columns' own, are wanted
  int32 sums[FRAGMENTS][2];

  // Rows 16 t + 0 to 15 for t = 0, 3, 4, 7 or 1, 2, 5, 6, and WIDTH columns of as many as
  // warps side by side have: of a triangle all warps multiply the same share.
  __device__ __forceinline__ int32 find_row(int32 slot) {
    int32 i = slot >> 4;
    return 16 * (2 * i + (below ^ i & 1)) + (slot & 15);
  }
  __device__ __forceinline__ int32 find_column(int32 slot) {
    return WIDTH * (WARPS_A_ROW * (slot / WIDTH) + aside) + slot % WIDTH;
  }
  __device__ __forceinline__ bool wants(int32 i, int32 j) {
    return wanted >> (4 * i + j) & 1;
  }
  __device__ __forceinline__ bool halves(int32 i, int32 j) {
    return halved >> (4 * i + j) & 1;
  }

  template <class Load>
  __device__ __forceinline__ void operator()(const Matrices (&left)[FRAGMENTS],
                                             Matrices (&right)[4], Load load) {
#pragma unroll
    for (int32 i = 0; i < 4 / PARTS; ++i) {
      right[i] = load(i);
      if (PARTS == 1) continue;
      right[2 + i] = map_words(right[i], [](uint32 x) { return turn_word(x, 1); });
      right[i] = map_words(right[i], [](uint32 x) { return turn_word(x, 0); });
    }
#pragma unroll
    for (int32 i = 0; PARTS == 2 && i < 4 * FRAGMENTS; ++i) {
      // Words 0 and 2 are of one row, 1 and 3 of another.
      int32& sum = sums[i / 4][i & 1];
      sum = add_bytes(word_of(left[i / 4], i & 3), sum);
    }
  }

  // Rows 8 to 15 with themselves, in a Hermitian product: both parts at a time. These rows
  // give Re; turned, in place of rows 0 to 7, they give c sum of re of y - Im.
  template <bool WHOLE>
  __device__ __forceinline__ void multiply(int32* d, const Matrices& left,
                                           const Matrices (&right)[4], int32 i, int32 j) {
    if (!WHOLE && !wants(i, j)) return;
    if (!WHOLE && halves(i, j)) {
      Matrices both = join_rows(left, [](uint32 x) { return turn_word(x, 1); });
      multiply_rows(d + 4 * j, both, right[j >> 1], 2 * (j & 1));
      return;
    }
#pragma unroll
    for (int32 half = 0; half < 2; ++half) {
      int32 t = PARTS == 2 ? j + 4 * half : 2 * j + half;
      multiply_rows(d + 4 * t, left, right[t >> 1], 2 * (t & 1));
    }
  }

  // Put the imaginary parts of these rows, whose sums of re are `own`, where they belong.
  __device__ __forceinline__ void separate(int32* d, int32 i, int32 own) {
#pragma unroll
    for (int32 j = 0; j < 4; ++j) {
      if (!halves(i, j)) continue;
#pragma unroll
      for (int32 b = 0; b < 2; ++b) {
        uint32 others = __shfl_sync(~0u, own, 8 * (threadIdx.x & 3) + 4 * b) + (uint32)own;
        d[4 * (j + 4) + 2 + b] = -(uint32)d[4 * j + b] - MINUS_C * others;
      }
    }
  }

  __device__ __forceinline__ int32 reduce(int32 sum) { return sum; }
};

// x and y: `stack` matrices of m and n rows of `bytes` bytes, at multiples of 16 bytes, as
// are the distances of rows. Of a square tile, squares without an element of the triangle
// are left as they are. A block for each piece from `first` on; see sums.cuh.
extern "C" __global__ void __launch_bounds__(256)
samples_mma(const Sample* x, int64 x_stride, const Sample* y, int64 y_stride, int64 bytes,
            int64 m, int64 n, Sums own, int32 triangle, int32 stack, int64 split,
            int32 shares, int32 adds, int64 first) {
  Work work = list_squares(m, n, SIDE, triangle, stack);
  int32 steps = (int32)((bytes + TILE_K - 1) / TILE_K);
  Piece piece = find_piece(first + blockIdx.x, work.count, (int64)work.count * stack,
                           split, shares, steps, adds);
  Square square = locate_square(work, piece.square);
  int32 row = SIDE * square.row, column = SIDE * square.column;
  int64 begin = (int64)TILE_K * piece.begin;
  Rows left = find_rows(x, piece.matrix, m, row, x_stride, begin);
  Rows right = find_rows(y, piece.matrix, n, column, y_stride, begin);
  int32 warp = threadIdx.x >> 5, d[SIDE];
  // Warps of odd columns have the halves. Each quarter of a multiprocessor takes one warp of
  // every block, so these are not always the same.
  int32 aside = (warp + __popc(blockIdx.x)) % WARPS_A_ROW;
  bool mirrored = CONJUGATE && (LEFT)-1 == (RIGHT)-1 && triangle == LOWER &&
                  are_same(left, right);
  Turning turning = {warp / WARPS_A_ROW, aside};
#pragma unroll
  for (int32 t = 0; t < 4 * FRAGMENTS; ++t) {
    int32 i = row + turning.find_row(16 * (t >> 2));
    int32 j = column + turning.find_column(WIDTH * (t & 3));
    bool wanted = i < m && j < own.row_stride && is_wanted(triangle, i, 16, j, WIDTH);
    turning.wanted |= (uint32)wanted << t;
    turning.halved |= (uint32)(mirrored && wanted && j == i + 8) << t;
  }
  bool idle = turning.wanted == 0, whole = turning.wanted == (1 << 4 * FRAGMENTS) - 1;
  multiply_steps(d, left, right, piece.count, bytes - begin, idle, whole, turning);
#pragma unroll
  for (int32 i = 0; i < FRAGMENTS; ++i) {
    int32 x_sums[2];
#pragma unroll
    for (int32 half = 0; half < 2; ++half) {
      // Four lanes have the words of a row.
      int32 sum = turning.sums[i][half];
      sum += __shfl_xor_sync(~0u, sum, 1);
      x_sums[half] = sum + __shfl_xor_sync(~0u, sum, 2);
    }
    if (PARTS == 2) turning.separate(d + 32 * i, i, x_sums[1]);
    store_sums<64 / PARTS>(d + 32 * i, x_sums, own, piece, m,
                           row + turning.find_row(16 * i), [&](int32 j) {
      return turning.wants(i, 8 * j / WIDTH) ? column + turning.find_column(8 * j) : -1;
    });
  }
}
