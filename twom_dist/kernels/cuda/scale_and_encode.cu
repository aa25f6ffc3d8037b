// Scale and encode: exponents and planes of both operands of a product, at once.
//
// Macros: those of encode.cuh. What norms.cu and encode.cu do in six launches, for rows
// that hold all of k. A block owns whole rows and passes over them three times, for the
// largest magnitude, the square sum and the planes. Shared memory keeps what the first
// pass reads: sizeof(element) + planes bytes an element move.
#include "encode.cuh"
#include "norms.cuh"

// Blocks whose registers fit a multiprocessor: 64 a thread, or 128 for long integers.
#define BLOCKS (WORDS <= 3 ? 4 : 2)

// One operand: `out` and `exponents` as of encode.cu.
struct Rows {
  const REAL* x;
  const int32* shifts;
  int64 rows, row_stride, k_stride;
  int32 conjugate, across, rows_of_block;
  int64 plane_stride;
  int8* out;
  int32* exponents;
  int64 stack_stride;
};

template <bool SUM>
__device__ __forceinline__ uint64 combine(uint64 a, uint64 b) {
  return SUM ? a + b : a > b ? a : b;
}

// The largest, or the sum, of what the threads of a row hold: by 16 of them, then by each,
// alike for those of a row. `held` once a block.
template <bool SUM>
__device__ __forceinline__ uint64 combine_row(uint64 own, uint64 (&held)[256],
                                              Place place, uint32 group_count) {
  uint64* row = held + place.row * group_count;
  row[place.group] = own;
  __syncthreads();
  if (place.group < 16) {
    for (uint32 group = place.group + 16; group < group_count; group += 16) {
      own = combine<SUM>(own, row[group]);
    }
    row[place.group] = own;
  }
  __syncthreads();
  uint64 whole = 0;
#pragma unroll
  for (uint32 group = 0; group < 16; ++group) whole = combine<SUM>(whole, row[group]);
  return whole;
}

__device__ __forceinline__ void encode_rows(const Rows& given, uint32 block, int64 k,
                                            int64 k_padded, Rule rule,
                                            uint64 (&magnitudes)[256],
                                            uint64 (&squares)[256]) {
  // A thread's own are 256 apart, and the four of a group as many as there are groups;
  // those of several rows are filled up to a whole turn of all threads.
  extern __shared__ Element kept[];
  uint32 row_count = given.rows_of_block, group_count = 256 / row_count;
  uint32 groups = (uint32)(k_padded / 4);
  if (row_count > 1) groups = (groups + group_count - 1) / group_count * 256;
  Place place = locate_in_block(given.across, row_count);
  int64 row = (int64)block * row_count + place.row;
  int64 own_k = row < given.rows ? k : 0;
  const REAL* x = given.x + PARTS * row * given.row_stride;
  int32 begin = 4 * place.group, step = 4 * group_count;
  Element element[4];
  Bits largest = 0;
  Element* own = kept + threadIdx.x;
#pragma unroll 2
  for (int32 first = begin; first < k_padded; first += step, own += 256) {
    load_group(element, x, first, own_k, given.k_stride, given.shifts);
#pragma unroll
    for (int32 c = 0; c < 4; ++c) {
      largest = larger_bits(element[c], largest);
      own[groups * c] = element[c];
    }
  }
  uint64 bits =
      combine_row<false>(widen_bits(largest), magnitudes, place, group_count);
  int32 e = bits == 0 ? ZERO_ROW : exponent_of(bits);
  bool masked = is_sentinel(e);
  uint64 total = 0;
  own = kept + threadIdx.x;
  for (int32 first = begin; first < k && !masked; first += step, own += 256) {
#pragma unroll
    for (int32 c = 0; c < 4; ++c) total += square_of(own[groups * c], rule.norm_bits - e);
  }
  total = combine_row<true>(total, squares, place, group_count);
  int32 s = choose_exponent(e, (int64)total, rule);
  if (row < given.rows && place.group == 0) given.exponents[row] = s;
  int8* out = given.out + row * k_padded;
  own = kept + threadIdx.x;
  for (int32 first = begin; first < k_padded; first += step, own += 256) {
#pragma unroll
    for (int32 c = 0; c < 4; ++c) element[c] = masked ? Element{} : own[groups * c];
    encode_group(element, masked ? 0 : s, given.conjugate, out + first,
                 given.plane_stride);
  }
}

// Exponents and planes of x by the first x_blocks blocks, and of y by the others. Blocks
// of 256 on rows_of_block whole rows, the padded ones included, in the order of `Group`;
// z over the matrices of stacks, whose planes and exponents follow one another; the places
// of the matrices may be given.
extern "C" __global__ void __launch_bounds__(256, BLOCKS)
scale_and_encode(Rows x, Rows y, uint32 x_blocks, int64 k, int64 k_padded, Rule rule,
                 const int32* places) {
  __shared__ uint64 magnitudes[256], squares[256];
  Rows rows = x;
  uint32 block = blockIdx.x, blocks = x_blocks;
  if (block >= x_blocks) {
    rows = y;
    block -= x_blocks;
    blocks = gridDim.x - x_blocks;
  }
  rows.x += PARTS * (find_place(places) * rows.stack_stride);
  rows.out += blockIdx.z * ((int64)blocks * rows.rows_of_block * k_padded);
  rows.exponents += blockIdx.z * rows.rows;
  encode_rows(rows, block, k, k_padded, rule, magnitudes, squares);
}
