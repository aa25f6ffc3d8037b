// Tensor cores of Ampere and later: copies to shared memory that nobody waits for,
// fragments of tiles there, and their products. On the host: see host_mma.h.

// Where the block's dynamic shared memory begins, at a multiple of 128.
__device__ __forceinline__ uint32 shared_memory() {
  extern __shared__ __align__(128) uint8 memory[];
  return (uint32)__cvta_generic_to_shared(memory);
}

// Copy 16 bytes, or write zeros where `bytes` is 0.
__device__ __forceinline__ void copy_async(uint32 target, const int8* source,
                                           int32 bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(target),
               "l"(source), "r"(bytes)
               : "memory");
}

// What this thread has copied since the last time is a group.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// All of this thread's groups but the last LATEST have arrived.
template <int32 LATEST>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(LATEST) : "memory");
}

// Four matrices of 8 rows of 16 bytes, a word of each in each lane: of row lane / 4, the
// word lane mod 4. address(l) is that of row l mod 8 of matrix l / 8.
template <class Address>
__device__ __forceinline__ void load_matrices(uint32 (&word)[4], Address address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "r"(address(threadIdx.x & 31))
               : "memory");
}

// d += X Y^T of a warp, 64 x 64 along 32 bytes. x[i]: 16 rows, words of rows 0-7 and 8-15
// along 16 bytes, then along the next 16. y[i]: 16 rows, words of rows 0-7 along both,
// then of rows 8-15. d[32 i + 4 j + 2 h + b]: row 16 i + 8 h + lane / 4, column
// 8 j + 2 (lane mod 4) + b.
__device__ __forceinline__ void multiply_part(int32 (&d)[128], const uint32 (&x)[4][4],
                                              const uint32 (&y)[4][4]) {
#pragma unroll
  for (int32 i = 0; i < 4; ++i) {
#pragma unroll
    for (int32 j = 0; j < 8; ++j) {
      int32* own = d + 32 * i + 4 * j;
      asm volatile(
          "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, "
          "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+r"(own[0]), "+r"(own[1]), "+r"(own[2]), "+r"(own[3])
          : "r"(x[i][0]), "r"(x[i][1]), "r"(x[i][2]), "r"(x[i][3]),
            "r"(y[j >> 1][2 * (j & 1)]), "r"(y[j >> 1][2 * (j & 1) + 1]));
    }
  }
}
