// Products whose sums are reduced modulo p, and how residues are stored: products.cu and
// products_mma.cu.
#include "squares.cuh"

// Planes of a product's operands, which residues it makes, and what reduces them.
struct Job {
  int32 left, right, product, entry;
};

// A thread's sums belong to slots 8 j + 2 t + b of 64 columns, t = lane mod 4, b < 2.
// Row 16 t + 2 j + b is taken there: 16 neighbours a thread, one store. Rows of X
// come in the same order, so that one operand can be both.
__device__ __forceinline__ int32 row_of_slot(int32 slot) {
  return (slot >> 1 & 3) << 4 | (slot >> 3) << 1 | (slot & 1);
}

// Rows of eight slots are 16 t + b + const.: these bits tell them apart.
#define BANK_BITS 4
#define FLIPPED 0

// The residues of 16 neighbours, whose sums lie in pairs 4 apart.
__device__ __forceinline__ uint4 reduce_sixteen(const int32* d, uint4 entry) {
  uint32 word[4];
#pragma unroll
  for (int32 t = 0; t < 4; ++t) {
    const int32* own = d + 8 * t;
    word[t] = pack_bytes(reduce_sum(own[0], entry), reduce_sum(own[1], entry),
                         reduce_sum(own[4], entry), reduce_sum(own[5], entry));
  }
  return make_uint4(word[0], word[1], word[2], word[3]);
}

__device__ __forceinline__ void add_sixteen(int32* d, uint4 old) {
  uint32 word[4] = {old.x, old.y, old.z, old.w};
#pragma unroll
  for (int32 t = 0; t < 4; ++t) {
#pragma unroll
    for (int32 b = 0; b < 4; ++b) {
      d[8 * t + 4 * (b >> 1) + (b & 1)] += (int8)(word[t] >> 8 * b);
    }
  }
}

// Something equal modulo p that is small.
__device__ __forceinline__ int32 reduce_one(int32 sum, uint4 entry) {
  return (int8)reduce_sum(sum, entry);
}

// Write the residues of a warp's sums and the `old` ones, if there are any: the 16 slots
// from `slot` on of the 64 rows from `row` on, and GROUPS times 64 columns. The old ones
// are read first, since they may lie where the new ones are written.
template <int32 GROUPS>
__device__ __forceinline__ void store_residues(int32* d, const int8* old,
                                               int8* residues, int64 row_stride,
                                               int64 m, int64 row, int64 column,
                                               int32 slot, uint4 entry) {
  int32 lane = threadIdx.x & 31;
#pragma unroll
  for (int32 half = 0; half < 2; ++half) {
    int64 i = row + row_of_slot(slot + 8 * half + (lane >> 2));
    if (i >= m) continue;
    int64 first = column + 16 * (lane & 3), place = i * row_stride + first;
    if (old) {
#pragma unroll
      for (int32 g = 0; g < GROUPS; ++g) {
        if (first + 64 * g >= row_stride) continue;
        const int8* source = old + place + 64 * g;
        add_sixteen(d + 32 * g + 2 * half, *reinterpret_cast<const uint4*>(source));
      }
    }
#pragma unroll
    for (int32 g = 0; g < GROUPS; ++g) {
      if (first + 64 * g >= row_stride) continue;
      uint4 found = reduce_sixteen(d + 32 * g + 2 * half, entry);
      *reinterpret_cast<uint4*>(residues + place + 64 * g) = found;
    }
  }
}
