// How a block multiplies tiles by mma.sync: those of SIDE rows of both sides.
//
// Macros: SIDE, 128 or 64; PARTS, how many sums there are of a row and a column.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define TURING
#endif
#include "mma.cuh"

// Bytes along k of a tile, and stages of tiles: 48 KB for squares of 128, twice that fits
// the 100 KB of 8.6 to 12.0; 32 KB of the 64 of Turing, whose copies do not go on
// meanwhile. By arithmetic, not measured: a step's 128 x 128 x 64 products take 512
// clocks of an A100's tensor cores, its copies and fragments 128 and 256 of its shared
// memory's; with 8 warps of 32 x 64 the fragments would take 384. With squares of 64 a
// step takes 128 clocks of the tensor cores, and 160 of shared memory.
#define TILE_K 64
#ifdef TURING
#define STAGES 2
#else
#define STAGES 3
#endif
#define CHUNK 16
#define CHUNKS (TILE_K / CHUNK)
#define TILE_BYTES (SIDE * TILE_K)
#define THREADS (SIDE * PARTS)
// 16 rows of a warp each, and warps side by side, of 64 columns of sums each.
#define FRAGMENTS (SIDE / 32)
#define WARPS_A_ROW (THREADS / 64)
#define WIDTH (16 / PARTS)

// |sum| <= 2^16 128 128 + 128 between two reductions: tiles along k.
#define LARGEST_STEPS (65536 / TILE_K)

// Where a tile's 16 bytes lie. Without conflicts of banks, which are 128 bytes: a store
// is of two neighbouring rows, a load of the rows of eight slots.
__device__ __forceinline__ uint32 place_of(int32 row, int32 chunk) {
  return TILE_K * row + CHUNK * (chunk ^ (row >> BANK_BITS & 3));
}

// A tile's rows from their byte `begin` on; zeros beyond `count` rows and `bytes`, which
// 16 divides, as it does the stride.
struct Rows {
  const int8* first;
  int64 stride, bytes;
  int32 count;
};

__device__ __forceinline__ Rows find_rows(const void* x, int64 matrix, int64 rows,
                                          int64 row, int64 stride, int64 bytes,
                                          int64 begin) {
  int64 count = rows - row < SIDE ? rows - row : SIDE;
  const int8* first = (const int8*)x + (matrix * rows + row) * stride + begin;
  return {first, stride, bytes - begin, (int32)count};
}

__device__ __forceinline__ void copy_tile(uint32 target, Rows rows, int64 begin) {
  int32 chunk = threadIdx.x % CHUNKS;
  bool within = begin + CHUNK * chunk < rows.bytes;
#pragma unroll
  for (int32 i = 0; i < CHUNKS * SIDE / THREADS; ++i) {
    int32 row = threadIdx.x / CHUNKS + THREADS / CHUNKS * i;
    const int8* source = rows.first + row * rows.stride + begin + CHUNK * chunk;
    bool copied = within && row < rows.count;
    copy_async(target + place_of(row, chunk), source, copied ? CHUNK : 0);
  }
}

// Step number `step`, if there is one; once where both sides are the same rows.
__device__ __forceinline__ void copy_step(uint32 memory, Rows x, Rows y, int32 step,
                                          int32 steps) {
  if (step < steps) {
    uint32 target = memory + step % STAGES * (2 * TILE_BYTES);
    copy_tile(target, x, (int64)TILE_K * step);
    if (x.first != y.first) copy_tile(target + TILE_BYTES, y, (int64)TILE_K * step);
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

// Add a step's products of this warp's rows of the tiles at x and y. `take` finds them,
// and tells which sums are wanted, of 16 rows and WIDTH columns; take(left, right, load)
// makes Y's matrices from load(i), those of 16 rows.
template <class Take>
__device__ __forceinline__ void multiply_step(int32 (&d)[SIDE], uint32 x, uint32 y,
                                              Take& take) {
#pragma unroll
  for (int32 part = 0; part < TILE_K / 32; ++part) {
    // Matrices are rows 0-7 and 8-15 of X along 16 bytes, then both along the next 16;
    // rows 0-7 of Y along both, then rows 8-15.
    Matrices left[FRAGMENTS], right[4];
#pragma unroll
    for (int32 i = 0; i < FRAGMENTS; ++i) {
      left[i] = load_matrices([&](int32 lane) {
        int32 row = take.find_row(16 * i + (lane & 15));
        return x + place_of(row, 2 * part + (lane >> 4));
      });
    }
    take(left, right, [&](int32 i) {
      return load_matrices([&](int32 lane) {
        int32 row = take.find_column(16 * i + (lane >> 4 << 3 | lane & 7));
        return y + place_of(row, 2 * part + (lane >> 3 & 1));
      });
    });
#pragma unroll
    for (int32 i = 0; i < FRAGMENTS; ++i) {
#pragma unroll
      for (int32 j = 0; j < 4; ++j) {
        if (!take.wants(i, j)) continue;
#pragma unroll
        for (int32 half = 0; half < 2; ++half) {
          int32 t = PARTS == 2 ? j + 4 * half : 2 * j + half;
          multiply_rows(d + 32 * i + 4 * t, left[i], right[t >> 1], 2 * (t & 1));
        }
      }
    }
  }
}

// d = the sums of X Y^T, or something equal modulo p; nothing if the warp is idle.
template <class Take>
__device__ __forceinline__ void multiply_steps(int32 (&d)[SIDE], Rows x, Rows y,
                                               int32 steps, bool idle, Take& take) {
  uint32 memory = shared_memory<STAGES * 2 * TILE_BYTES>();
  uint32 beside = x.first != y.first ? TILE_BYTES : 0;
#pragma unroll
  for (int32 i = 0; i < SIDE; ++i) d[i] = 0;
#pragma unroll
  for (int32 step = 0; step < STAGES - 1; ++step) copy_step(memory, x, y, step, steps);
  for (int32 step = 0; step < steps; ++step) {
    wait_for_copies<STAGES - 2>();
    // All have arrived, and all have read what comes next into its place.
    __syncthreads();
    copy_step(memory, x, y, step + STAGES - 1, steps);
    if (!idle) {
      uint32 stage = memory + step % STAGES * (2 * TILE_BYTES);
      multiply_step(d, stage, stage + beside, take);
    }
    if ((step + 1) % LARGEST_STEPS == 0) {
#pragma unroll
      for (int32 i = 0; i < SIDE; ++i) d[i] = take.reduce(d[i]);
    }
  }
}
