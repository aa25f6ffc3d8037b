// Winograd's form in quarters: sums of quarters of planes, and of products' residues.
//
// `spread` must read a byte and write 7/4 an entry a plane; `join` reads those and
// writes one. Bytes, biased to unsigned, are summed in pairs of 16-bit fields; -x is
// 255 - x, whose bits are those of ~x. `lift` takes the biases back modulo p.
#include "arithmetic.cuh"

// With four words of each quarter a thread's addresses cost little.
#define QUARTERS 4
#define PRODUCTS 7
#define LANES 4

struct alignas(4 * LANES) Words {
  uint32 word[LANES];
};

// The reduction of a plane or a product: {inverse, -p, lifts}.
__device__ __forceinline__ uint32 reduce_pairs(uint32 even, uint32 odd, uint32 lift,
                                               float inverse, uint32 minus_p) {
  return pack_bytes(residue_bits((even & 0xFFFF) + lift, inverse, minus_p),
                    residue_bits((odd & 0xFFFF) + lift, inverse, minus_p),
                    residue_bits((even >> 16) + lift, inverse, minus_p),
                    residue_bits((odd >> 16) + lift, inverse, minus_p));
}

#define FIELDS 0x00FF00FFu

// The sums of words, bytes biased to unsigned, by the `made` rows of a form: of `given`
// bits each, which say what is added, and what is subtracted. A row that adds one word
// and nothing else copies it.
template <int32 given, int32 made, typename Write, typename Copy>
__device__ __forceinline__ void apply_form(const uint32* words, uint32 plus,
                                           uint32 minus, Write write, Copy copy) {
#pragma unroll
  for (int32 t = 0; t < made; ++t) {
    uint32 even = 0, odd = 0, count = 0, last = 0;
#pragma unroll
    for (int32 i = 0; i < given; ++i) {
      bool added = plus >> (t * given + i) & 1, taken = minus >> (t * given + i) & 1;
      if (!added && !taken) continue;
      uint32 word = taken ? ~words[i] : words[i];
      even += word & FIELDS;
      odd += word >> 8 & FIELDS;
      count += taken ? 2 : 1;
      last = word;
    }
    if (count == 1) {
      copy(t, last);
    } else {
      write(t, even, odd);
    }
  }
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
      int64 row = (q >> 1) * height + i;
      int64 column = (q & 1) * width + j;
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
      auto write = [&](int32 t, uint32 even, uint32 odd) {
        uint32 lift = __ldg(entry + 2 + t);
        made[t].word[lane] = reduce_pairs(even, odd, lift, inverse, minus_p);
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
      int64 row = (q >> 1) * height + i;
      int64 column = (q & 1) * width + j;
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
      auto write = [&](int32 q, uint32 even, uint32 odd) {
        uint32 lift = __ldg(entry + 2 + q), word = made[q].word[lane] ^ BIAS;
        made[q].word[lane] = reduce_pairs(even + (word & FIELDS),
                                          odd + (word >> 8 & FIELDS), lift, inverse,
                                          minus_p);
      };
      auto copy = [](int32, uint32) {};  // every quarter is a sum
      apply_form<7, 4>(words, RESULT_PLUS, RESULT_MINUS, write, copy);
    }
#pragma unroll
    for (int32 q = 0; q < QUARTERS; ++q) {
      int64 row = (q >> 1) * height + i;
      int64 column = (q & 1) * width + j;
      if (row < m && column < row_stride) {
        int8* place = residues + own + row * row_stride + column;
        *reinterpret_cast<Words*>(place) = made[q];
      }
    }
  }
}
