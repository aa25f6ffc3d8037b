// Products: int8 planes -> residues of X Y^T modulo every p, one pass, by mma.sync.
// products.cu is Hopper's, but for small matrices.
//
// Must do 2 m n k operations and write m n bytes a product. A block of SIDE threads makes
// SIDE x SIDE residues of one product, 128 or 64, a warp SIDE / 2 x 64: its sums never
// leave the registers. Two blocks a multiprocessor: one multiplies while the other one
// reduces or waits.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define TURING
#endif
#include "squares.cuh"
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
// 16 rows of a warp each, and warps side by side, of 64 columns each.
#define FRAGMENTS (SIDE / 32)
#define WARPS_A_ROW (SIDE / 64)

// |sum| <= 2^16 128 128 + 128 between two reductions: tiles along k.
#define LARGEST_STEPS (65536 / TILE_K)

// Where a tile's 16 bytes lie. Without conflicts of banks, which are 128 bytes: a store
// is of two neighbouring rows, a load of rows 16 t + b + const., t < 4, b < 2.
__device__ __forceinline__ uint32 place_of(int32 row, int32 chunk) {
  return TILE_K * row + CHUNK * (chunk ^ (row >> 4 & 3));
}

// Rows of a plane from a tile's first one on, at most those of their matrix.
struct Rows {
  const int8* first;
  int32 count;
};

__device__ __forceinline__ Rows find_rows(const int8* planes, int64 matrix, int64 rows,
                                          int64 row, int64 k) {
  int64 count = rows - row < SIDE ? rows - row : SIDE;
  return {planes + (matrix * rows + row) * k, (int32)count};
}

// A tile from byte `begin` of its rows on; zeros past the last one.
__device__ __forceinline__ void copy_tile(uint32 target, Rows rows, int64 k,
                                          int64 begin) {
  int32 chunk = threadIdx.x % CHUNKS;
#pragma unroll
  for (int32 i = 0; i < CHUNKS; ++i) {
    int32 row = threadIdx.x / CHUNKS + SIDE / CHUNKS * i;
    const int8* source = rows.first + row * k + begin + CHUNK * chunk;
    copy_async(target + place_of(row, chunk), source, row < rows.count ? CHUNK : 0);
  }
}

// Step number `step`, if there is one.
__device__ __forceinline__ void copy_step(uint32 memory, Rows x, Rows y, int64 k,
                                          int32 step, int32 steps) {
  if (step < steps) {
    uint32 target = memory + step % STAGES * (2 * TILE_BYTES);
    copy_tile(target, x, k, (int64)TILE_K * step);
    copy_tile(target + TILE_BYTES, y, k, (int64)TILE_K * step);
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

// Add a step's products of this warp's rows of X and of Y, which begin at x and y.
__device__ __forceinline__ void multiply_step(int32 (&d)[SIDE], uint32 x, uint32 y) {
#pragma unroll
  for (int32 part = 0; part < TILE_K / 32; ++part) {
    // Matrices are rows 0-7 and 8-15 of X along 16 bytes, then both along the next 16;
    // rows 0-7 of Y along both, then rows 8-15.
    Matrices left[FRAGMENTS], right[4];
#pragma unroll
    for (int32 i = 0; i < FRAGMENTS; ++i) {
      left[i] = load_matrices([&](int32 lane) {
        int32 row = row_of_slot(16 * i + (lane & 15));
        return x + place_of(row, 2 * part + (lane >> 4));
      });
    }
#pragma unroll
    for (int32 i = 0; i < 4; ++i) {
      right[i] = load_matrices([&](int32 lane) {
        int32 row = row_of_slot(16 * i + (lane >> 4 << 3 | lane & 7));
        return y + place_of(row, 2 * part + (lane >> 3 & 1));
      });
    }
#pragma unroll
    for (int32 i = 0; i < FRAGMENTS; ++i) {
#pragma unroll
      for (int32 j = 0; j < 8; ++j) {
        multiply_rows(d + 32 * i + 4 * j, left[i], right[j >> 1], 2 * (j & 1));
      }
    }
  }
}

// d = the sums of X Y^T, or something equal modulo p; nothing if the warp is idle. Its
// rows begin at `row` and `column` of the tiles.
__device__ __forceinline__ void multiply_steps(int32 (&d)[SIDE], Rows x, Rows y, int64 k,
                                               int32 steps, int32 row, int32 column,
                                               bool idle, uint4 entry) {
  uint32 memory = shared_memory<STAGES * 2 * TILE_BYTES>();
#pragma unroll
  for (int32 i = 0; i < SIDE; ++i) d[i] = 0;
#pragma unroll
  for (int32 step = 0; step < STAGES - 1; ++step) {
    copy_step(memory, x, y, k, step, steps);
  }
  for (int32 step = 0; step < steps; ++step) {
    wait_for_copies<STAGES - 2>();
    // All have arrived, and all have read what comes next into its place.
    __syncthreads();
    copy_step(memory, x, y, k, step + STAGES - 1, steps);
    if (!idle) {
      uint32 stage = memory + step % STAGES * (2 * TILE_BYTES);
      multiply_step(d, stage + TILE_K * row, stage + TILE_BYTES + TILE_K * column);
    }
    if ((step + 1) % LARGEST_STEPS == 0) reduce_all(d, entry);
  }
}

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
             const Residue* old, Residue* residues, int64 row_stride,
             int64 product_stride, int32 triangle, int32 stack, int64 first) {
  Work work = list_squares(m, n, SIDE, triangle, stack);
  int64 index = first + blockIdx.x;
  int32 before = (int32)(index / work.count), matrix = before / job_count;
  Square square = locate_square(work, (int32)(index % work.count));
  Job job = jobs[before % job_count];
  int64 row = (int64)SIDE * square.row, column = (int64)SIDE * square.column;
  Rows left = find_rows(x, (int64)job.left * stack + matrix, x_rows, row, k);
  Rows right = find_rows(y, (int64)job.right * stack + matrix, y_rows, column, k);
  // A warp's slots are 64 or, where two share them, 32: 8 of each 16 rows.
  int32 warp = threadIdx.x >> 5, below = warp / WARPS_A_ROW * (SIDE == 64 ? 8 : 64);
  int32 aside = warp % WARPS_A_ROW * 64;
  bool idle = row + below >= m || column + aside >= row_stride;
  uint4 entry = __ldg(table + job.entry);
  int32 d[SIDE], steps = (int32)(k / TILE_K), done = 0;
  int64 own = job.product * product_stride + matrix * m * row_stride;
  const Residue* added = old ? old + own : 0;
  do {
    int32 count = count_steps(steps, done, TILE_K);
    if (done > 0) __syncthreads();  // all have read the last tiles
    multiply_steps(d, left, right, k, count, below, aside, idle, entry);
    left.first += (int64)TILE_K * count;
    right.first += (int64)TILE_K * count;
    done += count;
#pragma unroll
    for (int32 i = 0; i < FRAGMENTS; ++i) {
      if (idle) continue;
      store_residues<1>(d + 32 * i, added, residues + own, row_stride, m, row + below,
                        column + aside, 16 * i, entry);
    }
    added = residues + own;
  } while (IN_PANELS && done < steps);
}
