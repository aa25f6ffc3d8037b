// Integers of a row's entries and their int8 residue planes, four neighbours a thread.
//
// Macros: REAL, PARTS, SHIFTED, and WORDS, the 32-bit words of x' (|x'| < 2^(32 WORDS - 1)).
//
// The residue system stands in front of this text (`Constants` in tables.py): TABLE,
// and the number of moduli of each kind, 2M first, then 3M, 4M and real. All loops are
// unrolled, so the entries of the table become operands of instructions; in the
// compiled code no load of the table is left.
#include "elements.cuh"

// Words of a table row: inverse, -p, lift and starts of Re and Im; then the weights of
// Re, then those of Im.
#define HEADER 5
#define ENTRY (HEADER + 2 * WORDS)

enum Kind { TWO_M, THREE_M, FOUR_M, REAL_ONLY };

struct Integer {
  uint32 word[WORDS];
};

// rint(v) + 2^(32 WORDS - 1), least word first. Integers of more than two words are
// peeled off |v| from the top. What is left is always a part of its 53 bits, so nothing
// is rounded.
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
  *reinterpret_cast<uint32*>(out) = reduce_four(raw, inverse, minus_p);
  out += plane_stride;
}

// The planes of `count` moduli of one kind, from number `first` on; raw sums < 2^23.
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

// The planes of four elements: four bytes from `out` on, plane after plane. s: |s| < 2044.
__device__ __forceinline__ void encode_group(const Element (&element)[4], int32 s,
                                             int32 conjugate, int8* out,
                                             int64 plane_stride) {
  // Two factors keep every product that matters normal.
  double one = power_of_two(s >> 1), two = power_of_two(s - (s >> 1));
  Integer re[4], im[4];
#pragma unroll
  for (int32 c = 0; c < 4; ++c) {
    re[c] = quantise(__dmul_rn(__dmul_rn(widen(element[c].part[0]), one), two));
#if PARTS == 2
    double signed_one = conjugate ? -one : one;
    double y = __dmul_rn(__dmul_rn(widen(element[c].part[1]), signed_one), two);
    im[c] = quantise(y);
#endif
  }
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
