// Marks: which of +Inf, -Inf and NaN occur in elements that a NaN or an Inf reaches.
//
// Macros: REAL, PARTS. A row or column with a NaN becomes NaN, as its exponent says.
// For an Inf, every finite entry is replaced by its sign, so no sum overflows: a part
// of the result depends only on which of +Inf, -Inf and NaN occur among the terms with
// infinite entries, in any order and tiling. These terms are searched 32 at a time, in
// words with a bit for each term. A block reads those rows of its square that have an
// Inf, and the other rows only where these have some: at most 2 sizeof(element) k /
// SIDE bytes for each element of C.
#include "scalars.cuh"

#define PLUS_INF 1u
#define MINUS_INF 2u
#define NOT_A_NUMBER 4u
#define INFINITE (sizeof(REAL) == 4 ? 0x7F800000ull : 0x7FF0000000000000ull)
// Marks are three bits for the real part, and three above for the imaginary one.
#define ALL_NAN (PARTS == 2 ? 9u * NOT_A_NUMBER : NOT_A_NUMBER)
// While marks are made, this bit says that a row or column is reached.
#define REACHED 64u

// An operand: exponents are those of the whole rows.
struct Side {
  const REAL* x;
  int64 rows, row_stride, k_stride;
  int32 conjugate;
  const int32* exponents;
  int64 stack_stride;
};

// This block's matrix of a stack, at a place; exponents follow one another.
__device__ __forceinline__ Side take_matrix(Side own, uint32 place) {
  own.x += PARTS * (place * own.stack_stride);
  own.exponents += blockIdx.z * own.rows;
  return own;
}

// 32 entries of a row, a bit each. Zeros have any sign.
struct Word {
  uint32 nonzero[PARTS], negative[PARTS], infinite[PARTS];
};

__device__ __forceinline__ uint32 sign_bit(float t) { return __float_as_uint(t) >> 31; }

__device__ __forceinline__ uint32 sign_bit(double t) {
  return (uint32)((uint64)__double_as_longlong(t) >> 63);
}

// Every `step`-th entry of a row from `first` on; zeros beyond k.
__device__ __forceinline__ Word read_word(const Side& side, int64 row, int64 first,
                                          int32 step, int64 k) {
  Word word = {};
  const REAL* x = side.x + PARTS * row * side.row_stride;
#pragma unroll 1
  for (uint32 bit = 0; bit < 32; bit += 4) {
    // Four loads at once.
    Element element[4] = {};
#pragma unroll
    for (uint32 i = 0; i < 4; ++i) {
      int64 c = first + (bit + i) * step;
      if (c < k) element[i] = load_element(x, c * side.k_stride);
    }
#pragma unroll
    for (uint32 i = 0; i < 4 * PARTS; ++i) {
      uint32 at = bit + i / PARTS, part = i % PARTS;
      REAL t = element[i / PARTS].part[part];
      word.nonzero[part] |= (uint32)(magnitude_bits(t) != 0) << at;
      word.negative[part] |= sign_bit(t) << at;
      word.infinite[part] |= (uint32)(magnitude_bits(t) == INFINITE) << at;
    }
  }
  if (PARTS == 2 && side.conjugate) word.negative[PARTS - 1] = ~word.negative[PARTS - 1];
  return word;
}

// Add the marks of the products of two parts, one of which is infinite; or of the
// negated products.
__device__ __forceinline__ void add_terms(const Word& x, int32 part, const Word& y,
                                          int32 other, uint32 negated,
                                          uint32 (&found)[3]) {
  uint32 terms = x.infinite[part] | y.infinite[other];
  uint32 own = terms & x.nonzero[part] & y.nonzero[other];
  uint32 negative = x.negative[part] ^ y.negative[other] ^ negated;
  found[0] |= own & ~negative;
  found[1] |= own & negative;
  found[2] |= terms & ~own;
}

__device__ __forceinline__ uint32 count_marks(const uint32 (&found)[3]) {
  return (found[0] != 0 ? PLUS_INF : 0) | (found[1] != 0 ? MINUS_INF : 0) |
         (found[2] != 0 ? NOT_A_NUMBER : 0);
}

__device__ __forceinline__ uint32 mark_terms(const Word& x, const Word& y) {
  uint32 re[3] = {};
  add_terms(x, 0, y, 0, 0, re);
#if PARTS == 2
  uint32 im[3] = {};
  add_terms(x, 1, y, 1, ~0u, re);
  add_terms(x, 0, y, 1, 0, im);
  add_terms(x, 1, y, 0, 0, im);
  return count_marks(re) | count_marks(im) << 3;
#else
  return count_marks(re);
#endif
}

// The exponent of a row; past the last row ZERO_ROW, which scales nothing.
__device__ __forceinline__ int32 read_exponent(const Side& side, int64 row) {
  return row < side.rows ? __ldg(side.exponents + row) : ZERO_ROW;
}

// The mark before any term is read, from the exponents of the row and the column.
__device__ __forceinline__ uint32 first_mark(int32 e, int32 f) {
  int32 larger = e > f ? e : f;
  if (larger < NONFINITE_ROW || e == ZERO_ROW || f == ZERO_ROW) return 0;
  return larger == NAN_ROW ? REACHED | ALL_NAN : REACHED;
}

// Whether more terms may change a mark: both infinities together are NaN, too.
__device__ __forceinline__ bool is_open(uint32 mark) {
  uint32 known = mark | (mark << 2 & mark << 1);
  return (mark & REACHED) && (known & ALL_NAN) != ALL_NAN;
}

// A square of C, and the first element of a thread in it. The thread's other elements
// follow in the same column, every 256 / SIDE rows.
struct Square {
  int64 row, column;
  int32 own_row, own_column;
};

// The square of this block, in a grid along x.
template <int32 SIDE>
__device__ __forceinline__ Square locate_square(int64 columns) {
  uint32 across = (uint32)((columns + SIDE - 1) / SIDE);
  int32 thread = 32 * threadIdx.y + threadIdx.x;
  return {SIDE * (int64)(blockIdx.x / across), SIDE * (int64)(blockIdx.x % across),
          thread / SIDE, thread % SIDE};
}

// Mark the elements of a square; all threads of a block take part. Half of them read
// rows of x, the others rows of y, a word at a time.
template <int32 SIDE>
__device__ __forceinline__ void mark_square(const Side& x, const Side& y, int64 k,
                                            const Square& square,
                                            uint8 (&marks)[SIDE][SIDE]) {
  const int32 STEP = 256 / SIDE, WORDS = 128 / SIDE;
  __shared__ Word words[WORDS][2 * SIDE];
  int32 j = square.own_column, f = read_exponent(y, square.column + j);
  bool open = false;
#pragma unroll
  for (int32 step = 0; step < SIDE; step += STEP) {
    int32 i = square.own_row + step;
    uint32 mark = first_mark(read_exponent(x, square.row + i), f);
    marks[i][j] = (uint8)mark;
    open |= is_open(mark);
  }
  if (!__syncthreads_or(open)) return;
  bool second = threadIdx.y >= 4;
  Side side = second ? y : x;
  int32 reader = 32 * (threadIdx.y & 3) + threadIdx.x;
  // Neighbouring threads read neighbours in memory.
  bool across = side.row_stride < side.k_stride;
  int32 line = across ? reader % SIDE : reader / WORDS;
  int32 own = across ? reader / SIDE : reader % WORDS;
  int64 row = (second ? square.column : square.row) + line;
  int32 e = read_exponent(side, row);
  bool finite = e < NONFINITE_ROW && e != ZERO_ROW;
  Word* held = &words[own][second * SIDE + line];
  for (int64 first = 0; first < k; first += 32 * WORDS) {
    Word word = {};
    if (e == NONFINITE_ROW) word = read_word(side, row, first + own, WORDS, k);
    if (!__syncthreads_or(word.infinite[0] | word.infinite[PARTS - 1])) continue;
    if (finite) word = read_word(side, row, first + own, WORDS, k);
    *held = word;
    __syncthreads();
    open = false;
#pragma unroll 1
    for (int32 i = square.own_row; i < SIDE; i += STEP) {
      uint32 mark = marks[i][j];
      if (!is_open(mark)) continue;
#pragma unroll
      for (int32 w = 0; w < WORDS; ++w) {
        mark |= mark_terms(words[w][i], words[w][SIDE + j]);
      }
      marks[i][j] = (uint8)mark;
      open |= is_open(mark);
    }
    if (!__syncthreads_or(open)) return;
  }
}

__device__ __forceinline__ double marked_value(uint32 marks) {
  marks &= 7u;
  if (marks == PLUS_INF) return __longlong_as_double(0x7FF0000000000000ll);
  if (marks == MINUS_INF) return __longlong_as_double((long long)0xFFF0000000000000ull);
  return marks == 0 ? 0.0 : __longlong_as_double(0x7FF8000000000000ll);
}
