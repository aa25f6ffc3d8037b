// Sums of samples: rows of int8 or uint8, or of pairs (re, im) of them, as they lie.
//
// A row of k pairs is one of 2 k bytes. With ~b = c - b, c = -1 of int8 and 255 of uint8,
//   X conj(Y): Re = <x, y>,                Im = <x, (~im, re, ...)> - c sum of re of x;
//   X Y:       Re = <x, (re, ~im, ...)> - c sum of im of x,   Im = <x, (im, re, ...)>;
// and of conj(X) Im has the other sign. All sums wrap: those between may be too large.
//
// Macros: SUM, int32 or int64; PARTS, 2 of pairs; CONJUGATE, 1 where one of X and Y is
// conjugated; LEFT and RIGHT of squares.cuh.
#include "squares.cuh"

#define MINUS_C (-(int32)(RIGHT)-1)
#define BANK_BITS 1  // even and odd rows share lines of shared memory
#define FLIPPED 16   // rows by which a warp's slots 16 to 31 lie elsewhere; see Turning

struct alignas(PARTS) Sample {
  uint8 part[PARTS];
};

// Where the sums are written: sums[part * part_stride + (b * m + i) * row_stride + j], i <
// m and j < row_stride, which 16 divides.
struct Sums {
  SUM* sums;
  int64 row_stride, part_stride, sign;  // -1 if X is conjugated
};

// A square of a matrix, or half of one, along `count` tiles.
struct Piece {
  int32 matrix, square, begin, count;
  bool adds;  // to sums that are there
};

// The `total` pieces of all of k come first. Of those from `split` on only the first of
// `shares` along k does; the others follow, and are added.
__device__ __forceinline__ Piece find_piece(int64 index, int32 count, int64 total,
                                            int64 split, int32 shares, int32 steps,
                                            int32 adds) {
  int64 place = index < total ? index : split + (index - total) % (total - split);
  int32 share = index < total ? 0 : 1 + (int32)((index - total) / (total - split));
  int32 length = place < split ? steps : (steps + shares - 1) / shares;
  int32 begin = share * length, rest = steps - begin;
  Piece piece = {(int32)(place / count), (int32)(place % count), begin,
                 rest < length ? rest : length, adds != 0 || share > 0};
  return piece;
}

template <class T> struct Wrapping;
template <> struct Wrapping<s8> { typedef int32 Word; };
template <> struct Wrapping<u8> { typedef uint32 Word; };
template <> struct Wrapping<int32> { typedef uint32 Word; };
template <> struct Wrapping<int64> { typedef uint64 Word; };
typedef Wrapping<LEFT>::Word Bytes;
typedef Wrapping<SUM>::Word Word;

// Add the bytes of X that correct the product: of one part.
__device__ __forceinline__ int32 add_bytes(uint32 word, int32 sum) {
  Bytes ones = CONJUGATE ? 0x00010001 : 0x01000100;
  return (int32)__dp4a((Bytes)word, ones, (Bytes)sum);
}

// A word of Y as a part of the result takes it.
__device__ __forceinline__ uint32 turn_word(uint32 word, int32 part) {
  word ^= part == CONJUGATE ? 0xFF00FF00u : 0;
  return part == 0 ? word : __byte_perm(word, 0, 0x2301);
}

// Write, or add, a warp's sums of COLUMNS columns: of rows `row` + lane / 4 and 8 further,
// of which `x_sums` are the sums of one part: int32 if these are along the piece. find(j)
// is where the columns from 8 j on lie, negative where they are not wanted.
template <int32 COLUMNS, class T, class Find>
__device__ __forceinline__ void store_sums(const int32* d, const T (&x_sums)[2],
                                           const Sums& own, const Piece& piece, int64 m,
                                           int64 row, Find find) {
  typedef typename Wrapping<T>::Word Own;
  int32 lane = threadIdx.x & 31;
#pragma unroll
  for (int32 half = 0; half < 2; ++half) {
    int64 i = row + 8 * half + (lane >> 2);
    if (i >= m) continue;
    SUM* line = own.sums + (piece.matrix * m + i) * own.row_stride;
#pragma unroll
    for (int32 j = 0; j < PARTS * COLUMNS / 8; ++j) {
      int32 part = j / (COLUMNS / 8);
      int64 first = find(j % (COLUMNS / 8)), at = first + 2 * (lane & 3);
      if (first < 0) continue;
      Own more = (Own)(T)MINUS_C * (Own)x_sums[half];
      if (PARTS == 1 || part != CONJUGATE) more = 0;
      Own sign = (Own)(T)(part == 1 ? own.sign : 1);
      Word* out = (Word*)(line + part * own.part_stride + at);
#pragma unroll
      for (int32 b = 0; b < 2; ++b) {
        T found = (T)(((Own)(T)d[4 * j + 2 * half + b] + more) * sign);
        Word sum = (Word)(SUM)found;
        if (piece.adds) atomicAdd(out + b, sum);
        else out[b] = sum;
      }
    }
  }
}
