// Winograd's form in quarters: sums of quarters of planes, and of products' residues.
//
// `spread` must read a byte and write 7/4 an entry a plane, 49/16 with two levels;
// `join` reads those and writes one. Bytes, biased to unsigned, are summed in pairs of
// 16-bit fields: -x is `mask` - x, one exclusive or, below 2^8 at first, and below 2^10
// where four such are the parts of a second sum. `lift` takes the biases back modulo p.
#include "arithmetic.cuh"

// A thread takes LANES words of each quarter: with four of them addresses cost little,
// and 49 products of one fill its registers.
#if LEVELS == 1
#define QUARTERS 4
#define PRODUCTS 7
#define LANES 4
#else
#define QUARTERS 16
#define PRODUCTS 49
#define LANES 1
#endif

struct alignas(4 * LANES) Words {
  uint32 word[LANES];
};

// Bit i of `plus` and `minus`: whether x[i step] is added, or subtracted.
__device__ __forceinline__ uint32 add_signed(const uint32* x, int32 count, int32 step,
                                             uint32 plus, uint32 minus, uint32 mask) {
  uint32 sum = 0;
#pragma unroll
  for (int32 i = 0; i < count; ++i) {
    if (plus >> i & 1) sum += x[i * step];
    if (minus >> i & 1) sum += x[i * step] ^ mask;
  }
  return sum;
}

// The reduction of a plane or a product: {inverse, -p, lifts}.
__device__ __forceinline__ uint32 reduce_pairs(uint32 even, uint32 odd, uint32 lift,
                                               float inverse, uint32 minus_p) {
  return pack_bytes(residue_bits((even & 0xFFFF) + lift, inverse, minus_p),
                    residue_bits((odd & 0xFFFF) + lift, inverse, minus_p),
                    residue_bits((even >> 16) + lift, inverse, minus_p),
                    residue_bits((odd >> 16) + lift, inverse, minus_p));
}

// Sums of `given` words to `made`, by the rows of a form, of `given` bits each: the
// words of an inner form with the same row are the parts of the outer one.
struct Sums {
  uint32 even, odd;
};

#define FIELDS 0x00FF00FFu
#define WIDE_FIELDS 0x03FF03FFu

__device__ __forceinline__ Sums sum_words(const uint32* even, const uint32* odd,
                                          int32 given, int32 step, uint32 plus,
                                          uint32 minus, uint32 mask) {
  Sums sums = {add_signed(even, given, step, plus, minus, mask),
               add_signed(odd, given, step, plus, minus, mask)};
  return sums;
}

// Whether it adds one word and nothing else: a quarter as it is, and at which place.
__device__ __forceinline__ bool is_plain(uint32 plus, uint32 minus) {
  return minus == 0 && (plus & (plus - 1)) == 0;
}

__device__ __forceinline__ int32 place_of(uint32 bit) {
  int32 place = 0;
  for (; bit > 1; bit >>= 1) ++place;
  return place;
}

// Row `row` of a form whose rows have `given` bits.
__device__ __forceinline__ uint32 row_of(uint32 bits, int32 row, int32 given) {
  return bits >> row * given & ((1u << given) - 1);
}

// out[t] for t < made^LEVELS, of words[given^LEVELS], bytes biased to unsigned.
template <int32 given, int32 made, typename Write, typename Copy>
__device__ __forceinline__ void apply_form(const uint32* words, uint32 plus,
                                           uint32 minus, Write write, Copy copy) {
#if LEVELS == 1
  uint32 even[given], odd[given];
#pragma unroll
  for (int32 i = 0; i < given; ++i) {
    even[i] = words[i] & FIELDS;
    odd[i] = words[i] >> 8 & FIELDS;
  }
#pragma unroll
  for (int32 t = 0; t < made; ++t) {
    uint32 own_plus = row_of(plus, t, given), own_minus = row_of(minus, t, given);
    if (is_plain(own_plus, own_minus)) {
      copy(t, words[place_of(own_plus)]);
    } else {
      write(t, sum_words(even, odd, given, 1, own_plus, own_minus, FIELDS));
    }
  }
#else
#pragma unroll
  for (int32 inner = 0; inner < made; ++inner) {
    uint32 even[given], odd[given];
    uint32 own_plus = row_of(plus, inner, given), own_minus = row_of(minus, inner, given);
#pragma unroll
    for (int32 outer = 0; outer < given; ++outer) {
      uint32 first[given], second[given];
#pragma unroll
      for (int32 i = 0; i < given; ++i) {
        first[i] = words[given * outer + i] & FIELDS;
        second[i] = words[given * outer + i] >> 8 & FIELDS;
      }
      Sums sums = sum_words(first, second, given, 1, own_plus, own_minus, FIELDS);
      even[outer] = sums.even;
      odd[outer] = sums.odd;
    }
#pragma unroll
    for (int32 outer = 0; outer < made; ++outer) {
      uint32 outer_plus = row_of(plus, outer, given);
      uint32 outer_minus = row_of(minus, outer, given);
      if (is_plain(own_plus, own_minus) && is_plain(outer_plus, outer_minus)) {
        copy(made * outer + inner,
             words[given * place_of(outer_plus) + place_of(own_plus)]);
      } else {
        write(made * outer + inner, sum_words(even, odd, given, 1, outer_plus,
                                              outer_minus, WIDE_FIELDS));
      }
    }
  }
#endif
}

// Where a quarter, or a quarter of one, begins: its row and column among SIDE x SIDE.
__device__ __forceinline__ int32 row_of_quarter(int32 q) {
#if LEVELS == 1
  return q >> 1;
#else
  return 2 * (q >> 3) + (q >> 1 & 1);
#endif
}

__device__ __forceinline__ int32 column_of_quarter(int32 q) {
#if LEVELS == 1
  return q & 1;
#else
  return 2 * (q >> 2 & 1) + (q & 1);
#endif
}

#define BIAS 0x80808080u

// out[(z PRODUCTS + t) height + i][j], of planes[list[z]] of rows x columns bytes, for
// the left factors (right = 0) or the right ones. Quarters of height x width, zeros
// beyond the plane; 4 LANES divides columns, width and the addresses. table[z]:
// {inverse, -p, PRODUCTS lifts}. Blocks of 32 x 8: x over groups of 4 LANES along the
// rows, y over rows of a quarter, any number of blocks in y.
extern "C" __global__ void __launch_bounds__(256)
spread(const int8* planes, int64 rows, int64 columns, const int32* list, int8* out,
       int64 height, int64 width, const uint32* table, int32 right) {
  int64 j = 4 * LANES * ((int64)blockIdx.x * blockDim.x + threadIdx.x);
  if (j >= width) return;
  const int8* plane = planes + list[blockIdx.z] * rows * columns;
  const uint32* entry = table + blockIdx.z * (2 + PRODUCTS);
  float inverse = __uint_as_float(__ldg(entry));
  uint32 minus_p = __ldg(entry + 1);
  int64 i = (int64)blockIdx.y * blockDim.y + threadIdx.y;
  for (; i < height; i += (int64)gridDim.y * blockDim.y) {
    Words given[QUARTERS], made[PRODUCTS];
#pragma unroll
    for (int32 q = 0; q < QUARTERS; ++q) {
      int64 row = row_of_quarter(q) * height + i;
      int64 column = column_of_quarter(q) * width + j;
      given[q] = Words{};
      if (row < rows && column < columns) {
        given[q] = *reinterpret_cast<const Words*>(plane + row * columns + column);
      }
    }
#pragma unroll
    for (int32 lane = 0; lane < LANES; ++lane) {
      uint32 words[QUARTERS];
#pragma unroll
      for (int32 q = 0; q < QUARTERS; ++q) words[q] = given[q].word[lane] ^ BIAS;
      auto write = [&](int32 t, Sums sums) {
        uint32 lift = __ldg(entry + 2 + t);
        made[t].word[lane] = reduce_pairs(sums.even, sums.odd, lift, inverse, minus_p);
      };
      auto copy = [&](int32 t, uint32 word) { made[t].word[lane] = word ^ BIAS; };
      if (right) {
        apply_form<4, 7>(words, RIGHT_PLUS, RIGHT_MINUS, write, copy);
      } else {
        apply_form<4, 7>(words, LEFT_PLUS, LEFT_MINUS, write, copy);
      }
    }
    int8* target = out + (blockIdx.z * PRODUCTS * height + i) * width + j;
#pragma unroll
    for (int32 t = 0; t < PRODUCTS; ++t) {
      *reinterpret_cast<Words*>(target) = made[t];
      target += height * width;
    }
  }
}

// residues[list[z] product_stride + i row_stride + j], i < m, j < row_stride, = the sums
// of products[(z PRODUCTS + t) height + i][j], added to the residues at the same places
// of `old` unless it is null; it may be `residues`. 16 divides row_stride. table[z]:
// {inverse, -p, QUARTERS lifts}. Blocks as above.
extern "C" __global__ void __launch_bounds__(256)
join(const int8* products, int64 height, int64 width, const int32* list,
     const int8* old, int8* residues, int64 m, int64 row_stride, int64 product_stride,
     const uint32* table) {
  int64 j = 4 * LANES * ((int64)blockIdx.x * blockDim.x + threadIdx.x);
  if (j >= width) return;
  const uint32* entry = table + blockIdx.z * (2 + QUARTERS);
  float inverse = __uint_as_float(__ldg(entry));
  uint32 minus_p = __ldg(entry + 1);
  int64 own = list[blockIdx.z] * product_stride;
  int64 i = (int64)blockIdx.y * blockDim.y + threadIdx.y;
  for (; i < height; i += (int64)gridDim.y * blockDim.y) {
    const int8* source = products + (blockIdx.z * PRODUCTS * height + i) * width + j;
    Words given[PRODUCTS], made[QUARTERS];
#pragma unroll
    for (int32 t = 0; t < PRODUCTS; ++t) {
      given[t] = *reinterpret_cast<const Words*>(source);
      source += height * width;
    }
#pragma unroll
    for (int32 q = 0; q < QUARTERS; ++q) {
      int64 row = row_of_quarter(q) * height + i;
      int64 column = column_of_quarter(q) * width + j;
      made[q] = Words{};
      if (old && row < m && column < row_stride) {
        const int8* place = old + own + row * row_stride + column;
        made[q] = *reinterpret_cast<const Words*>(place);
      }
    }
#pragma unroll
    for (int32 lane = 0; lane < LANES; ++lane) {
      uint32 words[PRODUCTS];
#pragma unroll
      for (int32 t = 0; t < PRODUCTS; ++t) words[t] = given[t].word[lane] ^ BIAS;
      auto write = [&](int32 q, Sums sums) {
        uint32 lift = __ldg(entry + 2 + q), word = made[q].word[lane] ^ BIAS;
        made[q].word[lane] =
            reduce_pairs(sums.even + (word & FIELDS), sums.odd + (word >> 8 & FIELDS),
                         lift, inverse, minus_p);
      };
      auto copy = [](int32, uint32) {};  // every quarter is a sum
      apply_form<7, 4>(words, RESULT_PLUS, RESULT_MINUS, write, copy);
    }
#pragma unroll
    for (int32 q = 0; q < QUARTERS; ++q) {
      int64 row = row_of_quarter(q) * height + i;
      int64 column = column_of_quarter(q) * width + j;
      if (row < m && column < row_stride) {
        int8* place = residues + own + row * row_stride + column;
        *reinterpret_cast<Words*>(place) = made[q];
      }
    }
  }
}
