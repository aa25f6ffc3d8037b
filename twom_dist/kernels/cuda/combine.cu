// Combine: products of a Hermitian diagonal tile whose residues follow from others'.
//
// Must move 3 bytes an element, 4 with `other`. Each element is three dp4a whose weight
// stands at the byte wanted, so that transposing costs no instruction.
#include "arithmetic.cuh"

// Row `row` from `column` on, `count` bytes of it; nothing outside the tile.
__device__ __forceinline__ uint32 load_row(const int8* x, int64 n, int64 row,
                                           int64 column, int32 count, bool whole) {
  if (row >= n) return 0;
  const int8* source = x + row * n + column;
  return whole ? __ldg(reinterpret_cast<const uint32*>(source))
               : load_bytes(source, count);
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

// One mirror a block in y, of residues (products, n, n), contiguous; no target is the
// source or the other of another one. Squares in x, over groups of four rows x four
// columns; groups without an element of the triangle are left as they are.
extern "C" __global__ void __launch_bounds__(256)
combine(int8* residues, int64 n, const Mirror* mirrors, int32 triangle) {
  Mirror mirror = mirrors[blockIdx.y];
  const int8* r = residues + mirror.source * n * n;
  const int8* s = mirror.other < 0 ? 0 : residues + mirror.other * n * n;
  int8* out = residues + mirror.target * n * n;
  float inverse = __uint_as_float(mirror.inverse);
  Spot spot = locate_in_square((n + 3) / 4, (n + 3) / 4);
  int64 row = 4 * spot.row, column = 4 * spot.column;
  if (row >= n || column >= n || !is_wanted(triangle, row, 4, column, 4)) return;
  bool aligned = divides(4, (uint64)residues, n, 0);
  int32 count = n - column < 4 ? (int32)(n - column) : 4;
  int32 row_count = n - row < 4 ? (int32)(n - row) : 4;
  uint32 turned[4];
#pragma unroll
  for (int32 c = 0; c < 4; ++c) {
    turned[c] = load_row(r, n, column + c, row, row_count, aligned);
  }
#pragma unroll
  for (int32 i = 0; i < 4; ++i) {
    if (i >= row_count) break;
    uint32 own = 0, third = 0;
    if (mirror.straight) own = load_row(r, n, row + i, column, count, aligned);
    if (s) third = load_row(s, n, row + i, column, count, aligned);
    uint32 byte[4];
#pragma unroll
    for (int32 c = 0; c < 4; ++c) {
      int32 sum = __dp4a((int32)own, byte_at(mirror.straight, c), (int32)mirror.lift);
      sum = __dp4a((int32)turned[c], byte_at(mirror.transposed, i), sum);
      sum = __dp4a((int32)third, byte_at(mirror.other_weight, c), sum);
      byte[c] = residue_bits((uint32)sum, inverse, mirror.minus_p);
    }
    uint32 word = pack_bytes(byte[0], byte[1], byte[2], byte[3]);
    int8* target = out + (row + i) * n + column;
    if (aligned) {
      *reinterpret_cast<uint32*>(target) = word;
    } else {
      store_bytes(target, word, count);
    }
  }
}
