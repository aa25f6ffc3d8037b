// Requantise: sums of products of planes -> symmetric int8 residues. The sums are
// int32, or float32 with integers below 2^24 where planes were widened to float16.
//
// Must move 5 bytes an element, 6 when adding. The sum, biased to unsigned, is reduced
// by one dp4a with the weights 2^(8i) mod p and the reduction that encode uses: with
// the old residue, raw <= 4 * 255 * 255 + 255 + 128 + 256 < 2^18, for every int32.
#include "arithmetic.cuh"

typedef uint16 float16;  // its bits

__device__ __forceinline__ int32 sum_of(int32 bits, int32 floats) {
  return floats ? __float2int_rn(__uint_as_float((uint32)bits)) : bits;
}

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
// `products` is null; table[q] is the entry. Residues at the same places of `old` are
// added unless it is null; it may be `residues`. 16 divides row_stride, 4 ld, and the
// addresses. Blocks of 32 x 8: x over groups of four along the rows, y over rows, any
// number of blocks in y.
extern "C" __global__ void __launch_bounds__(256)
requantise(const int32* sums, int64 ld, int64 batch_stride, const int8* old,
           int8* residues, int64 row_stride, int64 product_stride, int64 m,
           const uint4* table, const int32* products, int32 floats, int32 stack,
           int64 stack_stride) {
  int32 own = (int32)blockIdx.z / stack, matrix = (int32)blockIdx.z % stack;
  int32 q = products ? products[own] : own;
  uint4 entry = __ldg(table + q);
  sums += blockIdx.z * batch_stride;
  int64 begin = q * product_stride + matrix * stack_stride;
  int64 first = 4 * ((int64)blockIdx.x * blockDim.x + threadIdx.x);
  if (first >= row_stride) return;
  int64 row = (int64)blockIdx.y * blockDim.y + threadIdx.y;
  for (; row < m; row += (int64)gridDim.y * blockDim.y) {
    int64 place = begin + row * row_stride + first;
    int4 sum = *reinterpret_cast<const int4*>(sums + row * ld + first);
    sum.x = sum_of(sum.x, floats), sum.y = sum_of(sum.y, floats);
    sum.z = sum_of(sum.z, floats), sum.w = sum_of(sum.w, floats);
    int32 word = old ? *reinterpret_cast<const int32*>(old + place) : 0;
    *reinterpret_cast<uint32*>(residues + place) =
        pack_bytes(add_sum(sum.x, entry, word, 0), add_sum(sum.y, entry, word, 1),
                   add_sum(sum.z, entry, word, 2), add_sum(sum.w, entry, word, 3));
  }
}

// Byte number `place` of a word as float16; each byte holds an integer plus 128. Read as
// the float 2^23 + byte, less 2^23 + 128 and times 2^-112, which is exact, it has the
// exponent and the mantissa of float16.
__device__ __forceinline__ uint32 widen_byte(uint32 biased, uint32 place) {
  float shifted = __uint_as_float(__byte_perm(biased, 0x4B000000u, 0x7540 | place));
  float scaled = __fmaf_ieee_rn(shifted, 0x1p-112f, -0x1.0001p-89f);
  uint32 bits = __float_as_uint(scaled);
  return (bits >> 16 & 0x8000u) | (bits >> 13 & 0x7FFFu);
}

__device__ __forceinline__ uint2 widen_word(int32 word) {
  uint32 biased = (uint32)word ^ 0x80808080u;
  uint2 wide;
  wide.x = widen_byte(biased, 0) | widen_byte(biased, 1) << 16;
  wide.y = widen_byte(biased, 2) | widen_byte(biased, 3) << 16;
  return wide;
}

// out[(z * rows + i) * k + j] = planes[z * plane_stride + i * row_stride + j] for j < k;
// z = blockIdx.z. 16 divides k, strides and addresses. Blocks of 32 x 8: x over groups
// of 16 along the rows, y over rows, any number in y. Must move 3 bytes an element.
extern "C" __global__ void __launch_bounds__(256)
widen(const int8* planes, int64 plane_stride, int64 row_stride, float16* out,
      int64 rows, int64 k) {
  planes += blockIdx.z * plane_stride;
  out += blockIdx.z * rows * k;
  int64 first = 16 * ((int64)blockIdx.x * blockDim.x + threadIdx.x);
  if (first >= k) return;
  int64 row = (int64)blockIdx.y * blockDim.y + threadIdx.y;
  for (; row < rows; row += (int64)gridDim.y * blockDim.y) {
    int4 word = *reinterpret_cast<const int4*>(planes + row * row_stride + first);
    uint2 a = widen_word(word.x), b = widen_word(word.y);
    uint2 c = widen_word(word.z), d = widen_word(word.w);
    uint4* target = reinterpret_cast<uint4*>(out + row * k + first);
    target[0] = make_uint4(a.x, a.y, b.x, b.y);
    target[1] = make_uint4(c.x, c.y, d.x, d.y);
  }
}
