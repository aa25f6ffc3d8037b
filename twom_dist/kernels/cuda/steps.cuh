// How a block multiplies tiles by mma.sync: those of SIDE rows of X and COLUMNS of Y.
//
// Macros: SIDE, 256, 128 or 64; PARTS, how many sums there are of a row and a column.
#include "copies.cuh"
#include "mma.cuh"

// Bytes along k of a tile, and stages of tiles: 72 KB for 256 x 128, 48 KB for squares of
// 128, twice that fits the 100 KB of 8.6 to 12.0; 32 KB of the 64 of Turing, whose copies
// do not go on meanwhile. By arithmetic, not measured: a step's 128 x 128 x 64 products
// take 512 clocks of an A100's tensor cores, its copies and fragments 128 and 256 of its
// shared memory's; with 8 warps of 32 x 64 the fragments would take 384. With squares of
// 64 a step takes 128 clocks of the tensor cores, and 160 of shared memory. For 256 x 128
// it takes 1024 and 704, and reads 24 bytes a clock from L2 instead of 32.
#define TILE_K 64
#ifdef TURING
#define STAGES 2
#else
#define STAGES 3
#endif
#define CHUNK 16
#define CHUNKS (TILE_K / CHUNK)
#define COLUMNS (SIDE < 128 ? SIDE : 128)
#define STAGE_BYTES ((SIDE + COLUMNS) * TILE_K)
#define THREADS (SIDE * PARTS)
// 16 rows of a warp each, and warps side by side, of 64 columns of sums each.
#define FRAGMENTS (COLUMNS / 32)
#define WARPS_A_ROW (COLUMNS * PARTS / 64)
#define WIDTH (16 / PARTS)

// |sum| <= 2^16 128 128 + 128 between two reductions: tiles along k.
#define LARGEST_STEPS (65536 / TILE_K)

// Where a tile's 16 bytes lie. Without conflicts of banks, which are 128 bytes: a store
// is of two neighbouring rows, a load of the rows of eight slots. That of r + s is the sum
// of that of r and, if no bit is in both, of s, but for what is XORed.
__device__ __forceinline__ uint32 place_of(int32 row, int32 chunk) {
  return TILE_K * row + CHUNK * (chunk ^ (row >> BANK_BITS & 3));
}

// What a thread copies next of a tile's rows: 16 bytes of every so many, of `count` rows;
// 16 divides the stride.
struct Rows {
  const int8* next;
  int64 stride;
  int32 count;
};

__device__ __forceinline__ Rows find_rows(const void* x, int64 matrix, int64 rows,
                                          int64 row, int64 stride, int64 begin) {
  int32 own = threadIdx.x / CHUNKS, chunk = threadIdx.x % CHUNKS;
  int64 count = rows - row < SIDE ? rows - row : SIDE;
  const int8* first = (const int8*)x + (matrix * rows + row + own) * stride + begin;
  return {first + CHUNK * chunk, stride, (int32)count - own};
}

// Whether they are the same rows, for all threads of a block alike.
__device__ __forceinline__ bool are_same(const Rows& x, const Rows& y) {
  return x.next == y.next && x.stride == y.stride && x.count == y.count;
}

template <int32 ROWS>
__device__ __forceinline__ void copy_tile(uint32 target, uint32 place, Rows& rows,
                                          bool within) {
#pragma unroll
  for (int32 i = 0; i < CHUNKS * ROWS / THREADS; ++i) {
    int32 further = THREADS / CHUNKS * i;
    bool copied = within && further < rows.count;
    const int8* source = rows.next + further * rows.stride;
    copy_async(target + (place ^ place_of(further, 0) % TILE_K) + TILE_K * further,
               reinterpret_cast<const uint4*>(source), copied);
  }
  rows.next += TILE_K;
}

// Copy step number `step`, if there is one, zeros from some of a row's chunks on; once
// where both sides are the same rows.
__device__ __forceinline__ void copy_step(uint32 target, uint32 place, Rows& x, Rows& y,
                                          bool same, int32 step, int32 steps,
                                          int32 chunks) {
  if (step < steps) {
    bool within = CHUNKS * step + (int32)threadIdx.x % CHUNKS < chunks;
    copy_tile<SIDE>(target, place, x, within);
    if (!same) copy_tile<COLUMNS>(target + SIDE * TILE_K, place, y, within);
  }
  commit_copies();
}

// d += X Y^T, 16 x 8 along 32 bytes: Y's are words `first` and `first` + 1.
__device__ __forceinline__ void multiply_rows(int32* d, const Matrices& x,
                                              const Matrices& y, int32 first) {
#ifdef TURING
#pragma unroll
  for (int32 i = 0; i < 4; ++i) {
    multiply_eighth(d + 2 * (i & 1), x, i, y, first + (i >> 1));
  }
#else
  multiply_whole(d, x, y, first);
#endif
}

// Add a step's products of this warp's rows of the tiles at x and y, of which the first 16
// lie at `rows` and `columns`. Matrices are rows 0-7 and 8-15 of X along 16 bytes, then both
// along the next 16; rows 0-7 of Y along both, then rows 8-15. take(left, right, load) makes
// Y's matrices from load(i), those of 16 rows; take.multiply adds products of 16 rows and
// WIDTH columns, those that are wanted if not WHOLE.
template <bool WHOLE, class Take>
__device__ __forceinline__ void multiply_step(int32 (&d)[COLUMNS], uint32 x, uint32 y,
                                              const Places& rows, const Places& columns,
                                              Take& take) {
  int32 down = TILE_K * (take.find_row(32) - take.find_row(0)) / 2;
  int32 along = TILE_K * (take.find_column(16) - take.find_column(0));
#pragma unroll
  for (int32 part = 0; part < TILE_K / 32; ++part) {
    Matrices left[FRAGMENTS], right[4];
#pragma unroll
    for (int32 i = 0; i < FRAGMENTS; ++i) {
      uint32 flipped = 2 * CHUNK * part + (i & 1 ? TILE_K * FLIPPED : 0);
      left[i] = load_matrices(rows, flipped, x + down * i);
    }
    take(left, right, [&](int32 i) {
      return load_matrices(columns, 2 * CHUNK * part, y + along * i);
    });
#pragma unroll
    for (int32 i = 0; i < FRAGMENTS; ++i) {
#pragma unroll
      for (int32 j = 0; j < 4; ++j) {
        take.template multiply<WHOLE>(d + 32 * i, left[i], right, i, j);
      }
    }
  }
}

// d = the sums of X Y^T along `steps` tiles, of `bytes` that 16 divides, or something equal
// modulo p; nothing if the warp is idle, and all of them if they are wanted `whole`.
// take.find_row and take.find_column tell where the rows of a slot lie in a tile.
template <class Take>
__device__ __forceinline__ void multiply_steps(int32 (&d)[COLUMNS], Rows x, Rows y,
                                               int32 steps, int64 bytes, bool idle,
                                               bool whole, Take& take) {
  uint32 memory = shared_memory<STAGES * STAGE_BYTES>(), stage = 0;
  uint32 place = keep(place_of(threadIdx.x / CHUNKS, threadIdx.x % CHUNKS));
  int32 chunks = (int32)(bytes / CHUNK);
  bool same = are_same(x, y);
  Places rows = find_places([&](int32 lane) {
    return place_of(take.find_row(lane & 15), lane >> 4);
  });
  Places columns = find_places([&](int32 lane) {
    return place_of(take.find_column(lane >> 4 << 3 | lane & 7), lane >> 3 & 1);
  });
#pragma unroll
  for (int32 i = 0; i < COLUMNS; ++i) d[i] = 0;
#pragma unroll
  for (int32 step = 0; step < STAGES - 1; ++step) {
    copy_step(memory + step * STAGE_BYTES, place, x, y, same, step, steps, chunks);
  }
  for (int32 step = 0; step < steps; ++step) {
    wait_for_copies<STAGES - 2>();
    // All have arrived, and all have read what comes next into its place.
    __syncthreads();
    uint32 before = (stage == 0 ? STAGES * STAGE_BYTES : stage) - STAGE_BYTES;
    copy_step(memory + before, place, x, y, same, step + STAGES - 1, steps, chunks);
    uint32 left = memory + stage, right = left + (same ? 0 : SIDE * TILE_K);
    if (whole) multiply_step<true>(d, left, right, rows, columns, take);
    else if (!idle) multiply_step<false>(d, left, right, rows, columns, take);
    stage = stage == (STAGES - 1) * STAGE_BYTES ? 0 : stage + STAGE_BYTES;
    if ((step + 1) % LARGEST_STEPS == 0) {
#pragma unroll
      for (int32 i = 0; i < COLUMNS; ++i) d[i] = take.reduce(d[i]);
    }
  }
}
