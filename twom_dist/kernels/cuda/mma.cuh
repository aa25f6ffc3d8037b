// Tensor cores of Turing and later, by mma.sync: fragments of tiles in shared memory, and
// their products. On the host: see host_mma.h.

// Where BYTES of the block's shared memory begin, at a multiple of 128: a launch says so
// if they are more than 48 KB.
template <int32 BYTES> __device__ __forceinline__ uint32 shared_memory() {
  if constexpr (BYTES > 49152) {
    alignas(128) extern __shared__ uint8 asked[];
    return (uint32)__cvta_generic_to_shared(asked);
  } else {
    alignas(128) __shared__ uint8 memory[BYTES];
    return (uint32)__cvta_generic_to_shared(memory);
  }
}

// Four matrices of 8 rows of 16 bytes, a word of each in each lane: of row lane / 4, the
// word lane mod 4.
struct Matrices {
  uint32 word[4];
};

__device__ __forceinline__ uint32 word_of(const Matrices& x, int32 i) {
  return x.word[i];
}

template <class Function>
__device__ __forceinline__ Matrices map_words(Matrices x, Function function) {
#pragma unroll
  for (int32 i = 0; i < 4; ++i) x.word[i] = function(x.word[i]);
  return x;
}

// Rows 8-15 of X, and a function of them as rows 0-7.
template <class Function>
__device__ __forceinline__ Matrices join_rows(const Matrices& x, Function function) {
  return {function(x.word[1]), x.word[1], function(x.word[3]), x.word[3]};
}

// A register that the assembler does not compute again in every step, as it does to use
// fewer: it comes from another lane for all that it knows.
__device__ __forceinline__ uint32 keep(uint32 x) {
  asm volatile("shfl.sync.idx.b32 %0, %0, %1, 31, -1;" : "+r"(x) : "r"(threadIdx.x & 31));
  return x;
}

// Where in a tile four matrices lie: address(l) is that of row l mod 8 of matrix l / 8.
struct Places {
  uint32 own;
};

template <class Address>
__device__ __forceinline__ Places find_places(Address address) {
  return {keep(address(threadIdx.x & 31))};
}

// Load matrices at the `places` of a tile, some of whose bits are flipped before.
__device__ __forceinline__ Matrices load_matrices(Places places, uint32 flipped,
                                                  uint32 tile) {
  Matrices x;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.word[0]), "=r"(x.word[1]), "=r"(x.word[2]), "=r"(x.word[3])
               : "r"((places.own ^ flipped) + tile)
               : "memory");
  return x;
}

// d[b] += X Y^T, 8 x 8 along 16 bytes, of matrix i of x and j of y: row lane / 4, column
// 2 (lane mod 4) + b.
__device__ __forceinline__ void multiply_eighth(int32* d, const Matrices& x, int32 i,
                                                const Matrices& y, int32 j) {
  asm volatile(
      "mma.sync.aligned.m8n8k16.row.col.s32." NAME(LEFT) "." NAME(RIGHT) ".s32 {%0, %1}, "
      "{%2}, {%3}, {%0, %1};"
      : "+r"(d[0]), "+r"(d[1])
      : "r"(x.word[i]), "r"(y.word[j]));
}

// d[2 h + b] += X Y^T, 16 x 8 along 32 bytes, h = 1 for the lower 8 rows: of matrices 0
// and 1 of x with j of y, and of 2 and 3 with j + 1.
__device__ __forceinline__ void multiply_whole(int32* d, const Matrices& x,
                                               const Matrices& y, int32 j) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32." NAME(LEFT) "." NAME(RIGHT) ".s32 "
      "{%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(x.word[0]), "r"(x.word[1]), "r"(x.word[2]), "r"(x.word[3]), "r"(y.word[j]),
        "r"(y.word[j + 1]));
}
