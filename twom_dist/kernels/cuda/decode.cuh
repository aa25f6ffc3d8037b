// Residues to numbers, for the neighbours of a thread: steps 1 to 4 of Engine.decode.
//
// Macros: REAL, PARTS, DIGITS (T of the contract), RESULTS (the components of a
// result), INTEGER_SUMS, and ELEMENTS: the neighbours along n that a thread computes,
// 4, 2 or 1, because the sums of their digits take 2 PARTS DIGITS ELEMENTS registers.
// The residues of a modulus are first combined into one small integer for each part (C-
// + C+ and C- - C+ for 2M), so a part takes DIGITS fused multiply-adds for each
// modulus, not for each product. For N = 16 that is about 150 double operations for
// each element, or 2.4 clocks on an H200, which does 64 a clock and SM. Where an SM
// does 2 a clock, INTEGER_SUMS leaves 12 of them and about 320 integer operations. On
// sm_90 it would take 440 instructions instead of 380, including conversions
// (compiled), because a word of 32 bits holds half a number.
//
// The residue system stands in front of this text (`Constants` in tables.py): TABLE,
// DIGIT_BITS, TOP_SHIFT, and the number of moduli of each kind, 2M first, then 3M, 4M
// and real. All loops are unrolled, so the entries of the table become operands of
// instructions; in the compiled code no load of the table is left.
#include "scalars.cuh"

// Places in the table: the digits of M, then the factors of the quotient of doubles and
// of integers, then for each modulus the digits of its weights, parts together.
#define FACTORS DIGITS
#define TOP_FACTOR (DIGITS + 2)
#define WEIGHTS (DIGITS + 3)
#define MODULI (TWO_M_COUNT + THREE_M_COUNT + FOUR_M_COUNT + REAL_COUNT)

enum Kind { TWO_M, THREE_M, FOUR_M, REAL_ONLY };

#include "digits.cuh"

typedef Sum Sums[ELEMENTS][PARTS][DIGITS];

__device__ __forceinline__ constexpr int32 product_count(int kind) {
  return kind == TWO_M ? 2 : kind == THREE_M ? 3 : kind == FOUR_M ? 4 : 1;
}

#if ELEMENTS == 4
typedef uint32 Whole;
#elif ELEMENTS == 2
typedef uint16 Whole;
#else
typedef uint8 Whole;
#endif

// ELEMENTS residues in the low bytes of a word, by one aligned load.
__device__ __forceinline__ uint32 load_whole(const int8* source) {
  return __ldg(reinterpret_cast<const Whole*>(source));
}

// Where a thread reads its residues, product after product.
struct Reader {
  const int8* source;
  int64 product_stride;

  template <int32 COUNT> __device__ __forceinline__ void load(uint32 (&r)[COUNT]) {
#pragma unroll
    for (int32 q = 0; q < COUNT; ++q) {
      r[q] = load_whole(source);
      source += product_stride;
    }
  }
};

// The integer by which the weight of each part is multiplied. Bytes are signed; a dp4a
// with 1 or -1 at byte c adds or subtracts element c. One part becomes a double by a
// conversion (16 a clock and SM on sm_90, beside the double pipe), the other by an
// addition (64).
template <int KIND>
__device__ __forceinline__ void combine_residues(const uint32* r, int32 c,
                                                 Combined (&value)[PARTS]) {
  int32 plus = 1 << (8 * c), minus = (int32)(0xFFu << (8 * c));
  if (KIND == REAL_ONLY) {
    value[0] = remove_bias(__dp4a((int32)r[0], plus, BIAS));
  } else {
    int32 re, im;
    if (KIND == TWO_M) {  // C- + C+, C- - C+
      re = __dp4a((int32)r[0], plus, __dp4a((int32)r[1], plus, FIRST_BIAS));
      im = __dp4a((int32)r[0], minus, __dp4a((int32)r[1], plus, BIAS));
    } else if (KIND == THREE_M) {  // T1 - T2, T3 - T1 - T2
      re = __dp4a((int32)r[0], plus, __dp4a((int32)r[1], minus, FIRST_BIAS));
      im = __dp4a((int32)r[1], minus, __dp4a((int32)r[2], plus, BIAS));
      im = __dp4a((int32)r[0], minus, im);
    } else {  // T1 - T2, T3 + T4
      re = __dp4a((int32)r[0], plus, __dp4a((int32)r[1], minus, FIRST_BIAS));
      im = __dp4a((int32)r[2], plus, __dp4a((int32)r[3], plus, BIAS));
    }
    value[0] = re;
    value[PARTS - 1] = remove_bias(im);
  }
}

// d += digits of the weights times the combined residues of one modulus. Exact: the
// bound of ResidueSystem.digit_bits, 2^52, holds for every partial sum.
template <int KIND>
__device__ __forceinline__ void add_modulus(Sums& d, const uint32* r, int32 modulus) {
  const double* weights = TABLE + WEIGHTS + modulus * DIGITS * PARTS;
#pragma unroll
  for (int32 c = 0; c < ELEMENTS; ++c) {
    Combined value[PARTS];
    combine_residues<KIND>(r, c, value);
#pragma unroll
    for (int32 part = 0; part < PARTS; ++part) {
#pragma unroll
      for (int32 t = 0; t < DIGITS; ++t) {
        d[c][part][t] =
            add_weighted(weights[t * PARTS + part], value[part], d[c][part][t]);
      }
    }
  }
}

// Add `count` moduli of one kind, from number `first` on. When this is unrolled, a
// dozen residues or more are loaded before the first is added (compiled for sm_90).
template <int KIND, class Source>
__device__ __forceinline__ void add_moduli(Sums& d, Source& reader, int32 first,
                                           int32 count) {
#pragma unroll
  for (int32 i = first; i < first + count; ++i) {
    uint32 r[product_count(KIND)];
    reader.load(r);
    add_modulus<KIND>(d, r, i);
  }
}

// Steps 1 to 3, for neighbours.
template <class Source>
__device__ __forceinline__ void reconstruct(Source reader,
                                            double (&v)[ELEMENTS][RESULTS][PARTS]) {
  Sums d;
#pragma unroll
  for (int32 e = 0; e < ELEMENTS; ++e) {
#pragma unroll
    for (int32 part = 0; part < PARTS; ++part) {
#pragma unroll
      for (int32 t = 0; t < DIGITS; ++t) d[e][part][t] = first_sum(part, t);
    }
  }
#if PARTS == 2
  add_moduli<TWO_M>(d, reader, 0, TWO_M_COUNT);
  add_moduli<THREE_M>(d, reader, TWO_M_COUNT, THREE_M_COUNT);
  add_moduli<FOUR_M>(d, reader, TWO_M_COUNT + THREE_M_COUNT, FOUR_M_COUNT);
#else
  add_moduli<REAL_ONLY>(d, reader, 0, REAL_COUNT);
#endif
  bool halves = false;
#pragma unroll
  for (int32 e = 0; e < ELEMENTS; ++e) {
#pragma unroll
    for (int32 part = 0; part < PARTS; ++part) {
      subtract_multiple(d[e][part], divide_by_modulus(d[e][part]));
      carry_digits(d[e][part], halves);
    }
  }
  if (halves) {
#pragma unroll
    for (int32 e = 0; e < ELEMENTS; ++e) {
#pragma unroll
      for (int32 part = 0; part < PARTS; ++part) mirror_digits(d[e][part]);
    }
  }
#pragma unroll
  for (int32 e = 0; e < ELEMENTS; ++e) {
#pragma unroll
    for (int32 part = 0; part < PARTS; ++part) {
      double own[RESULTS];
      sum_digits(d[e][part], own);
#pragma unroll
      for (int32 word = 0; word < RESULTS; ++word) v[e][word][part] = own[word];
    }
  }
}

__device__ __forceinline__ int32 finite_exponent(int32 e) {
  return e >= NONFINITE_ROW ? 0 : e;
}

// Step 4, except for a positive e2; e2 is 0 unless results are near the ends of the format.
__device__ __forceinline__ double scale_down(double v, int32 row, int32 column) {
  int32 e = -(row + column);
  int32 e1 = e < -1000 ? -1000 : e > 600 ? 600 : e;
  v = __dmul_rn(v, power_of_two(e1));
  int32 e2 = e - e1 < -1022 ? -1022 : e - e1;
  return e2 >= 0 ? v : __dmul_rn(v, power_of_two(e2));
}

// The rest of it, once alpha has multiplied.
__device__ __forceinline__ void scale_up(double (&v)[PARTS], int32 row, int32 column) {
  for (int32 e2 = -(row + column) - 600; e2 > 0; e2 -= 1023) {
#pragma unroll
    for (int32 part = 0; part < PARTS; ++part) {
      v[part] = __dmul_rn(v[part], power_of_two(e2 > 1023 ? 1023 : e2));
    }
  }
}

// Numbers of `count` neighbours; past the end, those of the last column's exponent.
template <class Source>
__device__ __forceinline__ void decode_neighbours(
    const Source& reader, int32 row, const int32* columns, int32 count,
    double (&v)[ELEMENTS][RESULTS][PARTS]) {
  reconstruct(reader, v);
  row = finite_exponent(row);
#pragma unroll
  for (int32 e = 0; e < ELEMENTS; ++e) {
    int32 column = finite_exponent(columns[e < count ? e : count - 1]);
#pragma unroll
    for (int32 word = 0; word < RESULTS; ++word) {
#pragma unroll
      for (int32 part = 0; part < PARTS; ++part) {
        v[e][word][part] = scale_down(v[e][word][part], row, column);
      }
    }
  }
}

// The same times alpha.
__device__ __forceinline__ void multiply_neighbours(
    double (&v)[ELEMENTS][RESULTS][PARTS], int32 row, const int32* columns, int32 count,
    const Scalar& alpha) {
  row = finite_exponent(row);
#pragma unroll
  for (int32 e = 0; e < ELEMENTS; ++e) {
    int32 column = finite_exponent(columns[e < count ? e : count - 1]);
    multiply_scalar(v[e][0], alpha);
#pragma unroll
    for (int32 word = 0; word < RESULTS; ++word) scale_up(v[e][word], row, column);
  }
}
