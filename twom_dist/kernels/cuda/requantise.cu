// Requantise: int32 sums of int8 products -> symmetric int8 residues.
//
// Must move 5 bytes an element, 6 when adding. The sum, biased to unsigned, is reduced
// by one dp4a with the weights 2^(8i) mod p and the reduction that encode uses: with
// the old residue, raw <= 4 * 255 * 255 + 255 + 128 + 256 < 2^18, for every int32.
#include "arithmetic.cuh"

// With the signed byte number `place` of the word of old residues.
__device__ __forceinline__ uint32 add_sum(int32 sum, uint4 entry, int32 old,
                                          int32 place) {
  uint32 raw = weigh_sum(sum, entry);
  raw = (uint32)__dp4a(old, 1 << (8 * place), (int32)raw);
  return residue_bits(raw, __uint_as_float(entry.z), entry.w);
}

// residues[q * product_stride + b * stack_stride + i * row_stride + j] for i < m,
// j < row_stride, from sums[z * batch_stride + i * ld + j]; z = blockIdx.z goes over
// `stack` matrices b of each product, and q = products[z / stack], or z / stack where
// `products` is null; table[q] is the entry. 16 divides row_stride, 4 ld, and the
// addresses. Blocks of 32 x 8: x over groups of four along the rows, y over rows, any
// number of blocks in y.
extern "C" __global__ void __launch_bounds__(256)
requantise(const int32* sums, int64 ld, int64 batch_stride, int8* residues,
           int64 row_stride, int64 product_stride, int64 m, const uint4* table,
           const int32* products, int32 add, int32 stack, int64 stack_stride) {
  int32 own = (int32)blockIdx.z / stack, matrix = (int32)blockIdx.z % stack;
  int32 q = products ? products[own] : own;
  uint4 entry = __ldg(table + q);
  sums += blockIdx.z * batch_stride;
  residues += q * product_stride + matrix * stack_stride;
  int64 first = 4 * ((int64)blockIdx.x * blockDim.x + threadIdx.x);
  if (first >= row_stride) return;
  int64 row = (int64)blockIdx.y * blockDim.y + threadIdx.y;
  for (; row < m; row += (int64)gridDim.y * blockDim.y) {
    int8* target = residues + row * row_stride + first;
    int4 sum = *reinterpret_cast<const int4*>(sums + row * ld + first);
    int32 old = add ? *reinterpret_cast<const int32*>(target) : 0;
    *reinterpret_cast<uint32*>(target) =
        pack_bytes(add_sum(sum.x, entry, old, 0), add_sum(sum.y, entry, old, 1),
                   add_sum(sum.z, entry, old, 2), add_sum(sum.w, entry, old, 3));
  }
}
