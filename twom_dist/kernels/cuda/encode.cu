// Encode: x' = rint(x 2^s) and its int8 residue planes, one pass over x.
//
// Macros: REAL, PARTS, and WORDS, the 32-bit words of x' (|x'| < 2^(32 WORDS - 1));
// HEXAGONAL where the parts of x' are those of Eisenstein integers, planes as of 2M.
// Must move sizeof(element) + planes bytes an element. With x' biased to unsigned, a
// residue is a chain of dp4a over its bytes with the weights w 2^(8i) mod p, w the
// plane's, and two instructions of reduction. For 2M and WORDS = 2 that is 57
// instructions of sm_90 a modulus and thread, four elements: for 16 moduli 2.1 clocks an
// element and SM of an H200, whose bytes take 2.7. The kernel hardly uses the double
// pipe.
//
// The residue system is part of the text, in front of it (`Constants` in tables.py):
// TABLE, and the number of moduli of each kind, 2M first, then 3M, 4M and real. With all
// loops unrolled the table is operands of instructions: compiled, no load of it is left.
#include "elements.cuh"

// Words of a table row: inverse, -p, lift and starts of Re and Im; then the weights of
// Re, then those of Im.
#define HEADER 5
#define ENTRY (HEADER + 2 * WORDS)

enum Kind { TWO_M, THREE_M, FOUR_M, REAL_ONLY };

struct Integer {
  uint32 word[WORDS];
};

// rint(v) + 2^(32 WORDS - 1), least word first. Longer integers are peeled off |v| from
// the top: what is left is always a part of its 53 bits, so that nothing rounds.
__device__ __forceinline__ Integer quantise(double v) {
  Integer x;
#if WORDS == 1
  x.word[0] = (uint32)__double2int_rn(v);
#elif WORDS == 2
  uint64 whole = (uint64)__double2ll_rn(v);
  x.word[0] = (uint32)whole;
  x.word[1] = (uint32)(whole >> 32);
#else
  double left = fabs(rint(v));
  int64 top = __double2ll_rz(__dmul_rn(left, power_of_two(-32 * (WORDS - 2))));
  x.word[WORDS - 1] = (uint32)((uint64)top >> 32);
  x.word[WORDS - 2] = (uint32)top;
  left = __fma_rn(-__ll2double_rn(top), power_of_two(32 * (WORDS - 2)), left);
#pragma unroll
  for (int32 t = WORDS - 3; t >= 0; --t) {
    x.word[t] = __double2uint_rz(__dmul_rn(left, power_of_two(-32 * t)));
    left = __fma_rn(-__uint2double_rn(x.word[t]), power_of_two(32 * t), left);
  }
  // Two's complement of a negative one: ~|x| + 1.
  uint32 mask = v < 0.0 ? 0xFFFFFFFFu : 0;
  uint64 carry = mask & 1;
#pragma unroll
  for (int32 t = 0; t < WORDS; ++t) {
    carry += x.word[t] ^ mask;
    x.word[t] = (uint32)carry;
    carry >>= 32;
  }
#endif
  x.word[WORDS - 1] ^= 0x80000000u;
  return x;
}

#include "hexagonal.cuh"

// start + sum_i weight_i byte_i: below 4 WORDS 255 (p - 1) + p.
__device__ __forceinline__ uint32 weigh(const Integer& x, const uint32* weights,
                                        uint32 start) {
#pragma unroll
  for (int32 t = 0; t < WORDS; ++t) start = __dp4a(x.word[t], weights[t], start);
  return start;
}

__device__ __forceinline__ void store_plane(int8*& out, int64 plane_stride,
                                            const uint32 (&raw)[4], float inverse,
                                            uint32 minus_p) {
  uint32 byte[4];
#pragma unroll
  for (int32 c = 0; c < 4; ++c) byte[c] = residue_bits(raw[c], inverse, minus_p);
  *reinterpret_cast<uint32*>(out) = pack_bytes(byte[0], byte[1], byte[2], byte[3]);
  out += plane_stride;
}

// The planes of `count` moduli of one kind, from number `first` on; raw sums stay below
// 2^23.
template <int KIND>
__device__ __forceinline__ void encode_moduli(const Integer (&re)[4],
                                              const Integer (&im)[4], int32 first,
                                              int32 count, int8*& out,
                                              int64 plane_stride) {
#pragma unroll
  for (int32 i = first; i < first + count; ++i) {
    const uint32* entry = TABLE + ENTRY * i;
    float inverse = __uint_as_float(entry[0]);
    uint32 minus_p = entry[1];
    uint32 lift = entry[2];  // a multiple of p, at least the largest sum of Im
    uint32 a[4], b[4], both[4];
#pragma unroll
    for (int32 c = 0; c < 4; ++c) {
      a[c] = weigh(re[c], entry + HEADER, entry[3]);
      b[c] = 0;
      if (PARTS == 2 && KIND != REAL_ONLY) {
        b[c] = weigh(im[c], entry + HEADER + WORDS, entry[4]);
      }
      both[c] = a[c] + b[c];
    }
    if (KIND == TWO_M) {  // Re + s Im, Re - s Im
      store_plane(out, plane_stride, both, inverse, minus_p);
#pragma unroll
      for (int32 c = 0; c < 4; ++c) both[c] = a[c] - b[c] + lift;
      store_plane(out, plane_stride, both, inverse, minus_p);
    } else {
      store_plane(out, plane_stride, a, inverse, minus_p);
      if (KIND != REAL_ONLY) store_plane(out, plane_stride, b, inverse, minus_p);
      if (KIND == THREE_M) store_plane(out, plane_stride, both, inverse, minus_p);
    }
  }
}

// out[plane * plane_stride + row * k_padded + c], zeros where row >= rows or c >= k.
extern "C" __global__ void __launch_bounds__(256)
encode(const REAL* x, int64 rows, int64 k, int64 row_stride, int64 k_stride,
       const int32* exponents, int32 conjugate, int8* out, int64 padded_rows,
       int64 k_padded, int64 plane_stride, int32 across, int32 rows_of_block) {
  Group group = locate_group(padded_rows, k_padded, across, rows_of_block);
  if (group.row >= padded_rows || group.first >= k_padded) return;
  int32 s = group.row < rows ? exponents[group.row] : NONFINITE_ROW;
  bool masked = is_sentinel(s);
  if (masked) s = 0;
  // Two factors keep every product that matters normal: |s| < 2044.
  double one = power_of_two(s >> 1), two = power_of_two(s - (s >> 1));
  Element element[4];
#pragma unroll
  for (int32 c = 0; c < 4; ++c) {
#pragma unroll
    for (int32 part = 0; part < PARTS; ++part) element[c].part[part] = 0;
    if (!masked && group.first + c < k) {
      int64 offset = group.row * row_stride + (group.first + c) * k_stride;
      element[c] = load_element(x, offset);
    }
  }
  Integer re[4], im[4];
#pragma unroll
  for (int32 c = 0; c < 4; ++c) {
    double x = __dmul_rn(__dmul_rn(widen(element[c].part[0]), one), two);
#if PARTS == 2
    double signed_one = conjugate ? -one : one;
    double y = __dmul_rn(__dmul_rn(widen(element[c].part[1]), signed_one), two);
#endif
#ifdef HEXAGONAL
    nearest_point(x, y, re[c], im[c]);
#else
    re[c] = quantise(x);
#if PARTS == 2
    im[c] = quantise(y);
#endif
#endif
  }
  out += group.row * k_padded + group.first;
  int32 first = 0;
#if PARTS == 2
  encode_moduli<TWO_M>(re, im, first, TWO_M_COUNT, out, plane_stride);
  first += TWO_M_COUNT;
  encode_moduli<THREE_M>(re, im, first, THREE_M_COUNT, out, plane_stride);
  first += THREE_M_COUNT;
  encode_moduli<FOUR_M>(re, im, first, FOUR_M_COUNT, out, plane_stride);
  first += FOUR_M_COUNT;
#endif
  encode_moduli<REAL_ONLY>(re, im, first, REAL_COUNT, out, plane_stride);
}
