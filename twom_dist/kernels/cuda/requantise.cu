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

// residues[q * product_stride + i * row_stride + j] for i < m, j < n, from
// sums[z * batch_stride + i * ld + j]; z = blockIdx.z and q = products[z], or z where
// `products` is null, and table[q] the entry. Blocks of 32 x 8: x over groups of four
// along n, y over rows, any number of blocks in y. 16-byte loads and 4-byte stores where
// addresses allow.
extern "C" __global__ void __launch_bounds__(256)
requantise(const int32* sums, int64 ld, int64 batch_stride, int8* residues,
           int64 row_stride, int64 product_stride, int64 m, int64 n,
           const uint4* table, const int32* products, int32 add) {
  int32 q = products ? products[blockIdx.z] : (int32)blockIdx.z;
  uint4 entry = __ldg(table + q);
  sums += blockIdx.z * batch_stride;
  residues += q * product_stride;
  int64 first = 4 * ((int64)blockIdx.x * blockDim.x + threadIdx.x);
  if (first >= n) return;
  int32 count = n - first < 4 ? (int32)(n - first) : 4;
  bool whole = count == 4 && divides(16, (uint64)sums, 4 * ld, 0) &&
               divides(4, (uint64)residues, row_stride, 0);
  int64 row = (int64)blockIdx.y * blockDim.y + threadIdx.y;
  for (; row < m; row += (int64)gridDim.y * blockDim.y) {
    const int32* source = sums + row * ld + first;
    int8* target = residues + row * row_stride + first;
    if (whole) {
      int4 sum = *reinterpret_cast<const int4*>(source);
      int32 old = add ? *reinterpret_cast<const int32*>(target) : 0;
      *reinterpret_cast<uint32*>(target) =
          pack_bytes(add_sum(sum.x, entry, old, 0), add_sum(sum.y, entry, old, 1),
                     add_sum(sum.z, entry, old, 2), add_sum(sum.w, entry, old, 3));
    } else {
      for (int32 c = 0; c < count; ++c) {
        int32 old = add ? (uint8)target[c] : 0;
        target[c] = (int8)add_sum(source[c], entry, old, 0);
      }
    }
  }
}
