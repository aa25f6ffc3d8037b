// The ring: how a block of Hopper (sm_90a) brings tiles of planes to its tensor cores.
//
// A ring of STAGES stages in shared memory, of a tile of X and two of Y each. One thread
// copies (TMA), 8 warps multiply (wgmma); a barrier says that a stage is full, another
// one that all have read it. The two blocks of a cluster lie one above the other and
// share the tiles of Y: each copies one of them for both, so a stage is empty when the
// warps of both blocks have read it.
#define STAGES 4
#define CLUSTER 2
#define WARPS 8
// Rows, and bytes along k, of a tile: swizzled rows of 128 bytes, as wgmma reads them.
#define TILE_ROWS 128
#define TILE_K 128
#define TILE_BYTES (TILE_ROWS * TILE_K)
#define STAGE_BYTES (3 * TILE_BYTES)
// int32 sums of a thread: 64 x 256 for each 128 threads.
#define ACCUMULATORS 128

// |sum| <= 2^16 128 128 + 128 between two reductions: tiles along k.
#define LARGEST_STEPS (65536 / TILE_K)

// What cuTensorMapEncodeTiled makes of planes; see hopper.py.
struct alignas(64) TensorMap {
  uint64 word[16];
};

// Where the tiles of a block begin, in groups of 64 rows or as the maps count them, how
// far after the first tile of Y the second one does, and the first tile along k.
struct Tiles {
  int32 left, right, aside, begin;
};

struct Ring {
  uint32 memory, full, empty;  // addresses in shared memory
  uint32 stage, parity;
  uint32 rank;  // of the block in its cluster
  int32 role;   // 0 copies, 1 and 2 multiply
};

__device__ __forceinline__ uint32 shared_address(const void* x) {
  return (uint32)__cvta_generic_to_shared(x);
}

__device__ __forceinline__ void init_barrier(uint32 barrier, uint32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

__device__ __forceinline__ void wait_for(uint32 barrier, uint32 parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

__device__ __forceinline__ void expect_bytes(uint32 barrier, uint32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
               "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void arrive(uint32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// At the same address of the other block. Nothing was written that it will read, so no
// release at cluster scope: products took 1.2 to 1.35 times as long with one (H200).
__device__ __forceinline__ void arrive_in_block(uint32 barrier, uint32 rank) {
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
      "}\n" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

__device__ __forceinline__ void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\n" ::
                   : "memory");
}

// L2 keeps X, which all columns of a band need: 1 to 2 % of the time on an H200. To have
// Y evicted first as well took them back.
__device__ __forceinline__ uint64 keep_in_l2() {
  uint64 policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// 128 rows from a group, or row, on, 128 bytes from k on; zeros past the end.
__device__ __forceinline__ void copy_tile(uint32 target, const TensorMap& map, int32 k,
                                          int32 group, uint32 barrier, uint64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%2, %3, %3, %3, %4}], [%5], %6;" ::"r"(target),
      "l"(&map), "r"(k), "r"(0), "r"(group), "r"(barrier), "l"(policy)
      : "memory");
}

// The same for both blocks, without a policy.
__device__ __forceinline__ void share_tile(uint32 target, const TensorMap& map, int32 k,
                                           int32 group, uint32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3, %3, %3, %4}], [%5], %6;" ::"r"(target),
      "l"(&map), "r"(k), "r"(0), "r"(group), "r"(barrier), "h"((unsigned short)3)
      : "memory");
}

// A K-major matrix in shared memory: 128-byte swizzle, eight rows every 1024 bytes.
__device__ __forceinline__ uint64 describe(uint32 address) {
  return (uint64)((address & 0x3FFFF) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

// d = X Y^T, or d += it, for 64 x 256 and 32 bytes along k.
__device__ __forceinline__ void multiply_part(int32 (&d)[ACCUMULATORS], uint64 x,
                                              uint64 y, int32 accumulate) {
#define EIGHT(i)                                                              \
  "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3]), "+r"(d[i + 4]), \
      "+r"(d[i + 5]), "+r"(d[i + 6]), "+r"(d[i + 7])
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k32.s32." NAME(LEFT) "." NAME(RIGHT) " {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, "
      "%72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, "
      "%88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, "
      "%104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, "
      "%120, %121, %122, %123, %124, %125, %126, %127"
      "}, %128, %129, p;\n"
      "}\n"
      : EIGHT(0), EIGHT(8), EIGHT(16), EIGHT(24), EIGHT(32), EIGHT(40), EIGHT(48),
        EIGHT(56), EIGHT(64), EIGHT(72), EIGHT(80), EIGHT(88), EIGHT(96), EIGHT(104),
        EIGHT(112), EIGHT(120)
      : "l"(x), "l"(y), "r"(accumulate));
#undef EIGHT
}

// Keep the compiler from moving the sums while tensor cores write them.
__device__ __forceinline__ void pin(int32 (&d)[ACCUMULATORS]) {
#pragma unroll
  for (int32 i = 0; i < ACCUMULATORS; ++i) asm volatile("" : "+r"(d[i])::"memory");
}

__device__ __forceinline__ void advance(Ring& ring) {
  if (++ring.stage == STAGES) {
    ring.stage = 0;
    ring.parity ^= 1;
  }
}

// A warp tells both blocks that it has read a stage.
__device__ __forceinline__ void release_stage(const Ring& ring, uint32 stage) {
  int32 lane = threadIdx.x & 31;
  if (lane == 0) arrive(ring.empty + 8 * stage);
  if (lane == 1) arrive_in_block(ring.empty + 8 * stage, ring.rank ^ 1);
}

__device__ __forceinline__ Ring open_ring() {
  extern __shared__ uint8 memory[];  // STAGES STAGE_BYTES, and 1024 to align them
  __shared__ uint64 barriers[2 * STAGES];
  Ring ring;
  ring.memory = (shared_address(memory) + 1023) & ~1023u;
  ring.full = shared_address(barriers);
  ring.empty = ring.full + 8 * STAGES;
  ring.stage = ring.parity = 0;
  ring.role = threadIdx.x >> 7;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(ring.rank));
  if (threadIdx.x == 0) {
    for (int32 s = 0; s < STAGES; ++s) {
      init_barrier(ring.full + 8 * s, 1);
      init_barrier(ring.empty + 8 * s, CLUSTER * WARPS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  sync_cluster();
  return ring;
}

// Registers of 65536: 128 x 56 for copies, 256 x 224 for sums. Each role once, in its
// own branch, or the assembler ignores it.
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
}

__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
}

// Nobody may leave while the other block can still write here.
__device__ __forceinline__ void close_ring() { sync_cluster(); }

// Copy `steps` tiles along k of X and Y.
__device__ __forceinline__ void copy_steps(Ring& ring, const TensorMap& x,
                                           const TensorMap& y, Tiles tiles,
                                           int32 steps) {
  uint64 policy = keep_in_l2();
  for (int32 step = 0; step < steps; ++step) {
    wait_for(ring.empty + 8 * ring.stage, ring.parity ^ 1);
    uint32 target = ring.memory + ring.stage * STAGE_BYTES;
    uint32 barrier = ring.full + 8 * ring.stage;
    expect_bytes(barrier, STAGE_BYTES);
    int32 k = (tiles.begin + step) * TILE_K;
    copy_tile(target, x, k, tiles.left, barrier, policy);
    share_tile(target + (1 + ring.rank) * TILE_BYTES, y, k,
               tiles.right + tiles.aside * ring.rank, barrier);
    advance(ring);
  }
}

// d = the sums of X Y^T over `steps` tiles along k, or something equal modulo p: what
// `reduce` makes of a sum is, too. The maps, of X and of both tiles of Y, are the host's.
template <class Reduce>
__device__ __forceinline__ void multiply_steps(Ring& ring, int32 (&d)[ACCUMULATORS],
                                               const TensorMap&, const TensorMap&,
                                               const TensorMap&, Tiles, int32 steps,
                                               Reduce reduce) {
  uint32 half = (ring.role - 1) * (TILE_BYTES / 2), previous = 0;
  for (int32 step = 0; step < steps; ++step) {
    wait_for(ring.full + 8 * ring.stage, ring.parity);
    uint32 base = ring.memory + ring.stage * STAGE_BYTES;
    uint64 left = describe(base + half), right = describe(base + TILE_BYTES);
    pin(d);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int32 part = 0; part < TILE_K / 32; ++part) {
      // Addresses count 16 bytes.
      multiply_part(d, left + 2 * part, right + 2 * part, step > 0 || part > 0);
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    pin(d);
    if (step > 0) {
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
      release_stage(ring, previous);
    }
    previous = ring.stage;
    advance(ring);
    if ((step + 1) % LARGEST_STEPS == 0) {
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      pin(d);
#pragma unroll
      for (int32 i = 0; i < ACCUMULATORS; ++i) d[i] = reduce(d[i]);
    }
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  pin(d);
  release_stage(ring, previous);
}
