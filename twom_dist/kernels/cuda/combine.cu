// Combine: the products of a Hermitian diagonal tile whose residues follow from those
// of other products, and sums of the residues of two parts along k.
//
// Must move 3 bytes an element, 4 with `other`. Each element takes three dp4a, whose
// weight stands at the byte that is wanted, so transposing costs no instruction.
#include "arithmetic.cuh"

// Four residues of a row; nothing below the tile.
__device__ __forceinline__ uint32 load_row(const int8* x, int64 n, int64 row_stride,
                                           int64 row, int64 column) {
  if (row >= n) return 0;
  return __ldg(reinterpret_cast<const uint32*>(x + row * row_stride + column));
}

// A signed byte at one of the four places of a word.
__device__ __forceinline__ int32 byte_at(int32 value, int32 place) {
  return (int32)((uint32)(value & 255) << (8 * place));
}

// How the residues of product `target` follow from those of `source`, R, and of `other`,
// S (none if negative): straight R + transposed R^T + other_weight S (mod p). Weights are
// symmetric residues: the sum is at most 3 * 128 * 128 in magnitude, `lift` a multiple of
// p at least as large, raw < 2^17.
struct Mirror {
  int32 target, source, other, straight, transposed, other_weight;
  uint32 lift, inverse, minus_p;
};

// Each block in y takes one mirror, each in z one matrix of the stack, of residues
// (products, matrices, n, row_stride), contiguous; 16 divides row_stride and the
// address. No target is the source or the `other` of another mirror. Blocks in x take
// squares of groups, of four rows x four columns each; groups without an element of the
// triangle are left as they are.
extern "C" __global__ void __launch_bounds__(256)
combine(int8* residues, int64 n, int64 row_stride, const Mirror* mirrors,
        int32 triangle) {
  Mirror mirror = mirrors[blockIdx.y];
  int64 product_stride = gridDim.z * n * row_stride;
  residues += blockIdx.z * n * row_stride;
  const int8* r = residues + mirror.source * product_stride;
  const int8* s = mirror.other < 0 ? 0 : residues + mirror.other * product_stride;
  int8* out = residues + mirror.target * product_stride;
  float inverse = __uint_as_float(mirror.inverse);
  Spot spot = locate_in_square((n + 3) / 4, (n + 3) / 4);
  int64 row = 4 * spot.row, column = 4 * spot.column;
  if (row >= n || column >= n || !is_wanted(triangle, row, 4, column, 4)) return;
  uint32 turned[4];
#pragma unroll
  for (int32 c = 0; c < 4; ++c) {
    turned[c] = load_row(r, n, row_stride, column + c, row);
  }
#pragma unroll
  for (int32 i = 0; i < 4; ++i) {
    if (row + i >= n) break;
    uint32 own = 0, third = 0;
    if (mirror.straight) own = load_row(r, n, row_stride, row + i, column);
    if (s) third = load_row(s, n, row_stride, row + i, column);
    uint32 raw[4];
#pragma unroll
    for (int32 c = 0; c < 4; ++c) {
      int32 sum = __dp4a((int32)own, byte_at(mirror.straight, c), (int32)mirror.lift);
      sum = __dp4a((int32)turned[c], byte_at(mirror.transposed, i), sum);
      raw[c] = (uint32)__dp4a((int32)third, byte_at(mirror.other_weight, c), sum);
    }
    int8* target = out + (row + i) * row_stride + column;
    *reinterpret_cast<uint32*>(target) = reduce_four(raw, inverse, mirror.minus_p);
  }
}

// out = x + y (mod p): three arrays of `lines` of 16 bytes for each product, which is
// blockIdx.y. Entries of `table` are {lift, inverse, -p}; lift is a multiple of p of
// 256 or more, so lift + x + y is positive. Must move 3 bytes an element.
extern "C" __global__ void __launch_bounds__(256)
add_residues(const int8* x, const int8* y, int8* out, int64 lines,
             const uint32* table) {
  int64 line = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (line >= lines) return;
  int64 place = blockIdx.y * lines + line;
  const uint32* entry = table + 3 * blockIdx.y;
  int32 lift = (int32)__ldg(entry);
  float inverse = __uint_as_float(__ldg(entry + 1));
  uint32 minus_p = __ldg(entry + 2);
  uint4 u = reinterpret_cast<const uint4*>(x)[place];
  uint4 v = reinterpret_cast<const uint4*>(y)[place];
  uint32 left[4] = {u.x, u.y, u.z, u.w}, right[4] = {v.x, v.y, v.z, v.w}, sum[4];
#pragma unroll
  for (int32 i = 0; i < 4; ++i) {
    uint32 raw[4];
#pragma unroll
    for (int32 c = 0; c < 4; ++c) {
      int32 own = __dp4a((int32)left[i], byte_at(1, c), lift);
      raw[c] = (uint32)__dp4a((int32)right[i], byte_at(1, c), own);
    }
    sum[i] = reduce_four(raw, inverse, minus_p);
  }
  uint4* target = reinterpret_cast<uint4*>(out) + place;
  *target = make_uint4(sum[0], sum[1], sum[2], sum[3]);
}
