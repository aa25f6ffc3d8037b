// Scale and encode: exponents and planes of both operands of a product, at once.
//
// Macros: those of encode.cuh, THREADS, whose registers fit a multiprocessor, and WHOLE.
// This does what norms.cu and encode.cu do in six launches, for rows that hold all of k,
// and moves sizeof(element) + planes bytes an element. Blocks stay until all rows are
// done. Each keeps some rows in shared memory, and passes over them three times: for the
// largest magnitude, the square sum and the planes. The last pass makes room for the next
// rows, which are copied there while it goes on, so that reading does not wait for writing.
// Unless WHOLE, a block keeps only the end of a row. Each pass begins with the rest, so
// that L2 still has it when the next pass reads it again. For 2M and WORDS = 2, a thread
// takes 1370 instructions of sm_90 for four elements of 16 moduli (compiled): 2.7 clocks
// an element and SM of an H200, as do their bytes.
#include "encode.cuh"
#include "norms.cuh"
#include "copies.cuh"

// One operand: `out` and `exponents` as of encode.cu; `tiles` of rows_of_block rows in
// each matrix, the padded ones included.
struct Rows {
  const REAL* x;
  const int32* shifts;
  int64 rows, row_stride, k_stride;
  int32 conjugate, across, rows_of_block;
  uint32 tiles;
  int64 plane_stride;
  int8* out;
  int32* exponents;
  int64 stack_stride;
};

// The largest, or the sum, of what all threads of a row have. `held`: once a tile.
template <bool SUM>
__device__ __forceinline__ uint64 combine_row(uint64 own, uint64 (&held)[THREADS / 8],
                                              const Place& place) {
  uint32 lane = threadIdx.x & 31, warps = blockDim.x / 32 / place.bands;
  auto combine = [&](uint64 other) {
    own = SUM ? own + other : own > other ? own : other;
  };
  auto combine_lanes = [&]() {
    for (uint32 lanes = place.down; lanes < 32; lanes *= 2) {
      combine(__shfl_xor_sync(~0u, own, lanes));
    }
  };
  combine_lanes();
  uint64* row = held + place.row * warps;
  if (lane < place.down) row[(threadIdx.x >> 5) / place.bands] = own;
  __syncthreads();
  own = 0;
  for (uint32 i = lane / place.down; i < warps; i += 32 / place.down) combine(row[i]);
  combine_lanes();
  return own;
}

// Exponents and planes of x by the first x_blocks blocks, and of y by the others: each
// takes every so-many-th tile. The planes and exponents of the matrices of a stack follow
// one another; their places may be given. Rows are kept from element `rest` on, a multiple
// of 128: all lanes of a warp keep a group, or none does. Without a second bound ptxas 13
// aims at 32 registers for shifted floats, and spills.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
scale_and_encode(Rows x, Rows y, uint32 x_blocks, uint32 matrices, int32 k,
                 int32 k_padded, int32 rest, Rule rule, const int32* places) {
  bool others = blockIdx.x >= x_blocks;
  Rows given = x;
  if (others) given = y;
  uint32 tile = others ? blockIdx.x - x_blocks : blockIdx.x;
  uint32 count = matrices * given.tiles, blocks = others ? gridDim.x - x_blocks : x_blocks;
  if (WHOLE) rest = 0;
  // Elements of a thread are as many apart as there are threads; the four of a group lie
  // in other banks for those that copy them.
  extern __shared__ Element kept[];
  __shared__ uint64 held[2][THREADS / 8];
  uint32 row_count = WHOLE ? given.rows_of_block : 1, lane = threadIdx.x & 31;
  Place place = locate_in_block(given.across, row_count);
  int32 apart = row_count * (k_padded - rest) / 4 + 32 / (int32)sizeof(Element);
  int32 begin = 4 * place.group, step = 4 * blockDim.x / row_count;
  const Element *own_x, *next_x;
  int32 end, next_end;  // k, or -1 of a padded row
  auto find_row = [&](uint32 tile) {
    uint32 matrix = tile / given.tiles, first = tile - matrix * given.tiles;
    int64 row = (int64)first * row_count + place.row;
    next_end = row < given.rows ? k : -1;
    next_x = reinterpret_cast<const Element*>(given.x) + row * given.row_stride +
             find_place(places, matrix) * given.stack_stride;
  };
  find_row(tile);
  // A warp copies what its own lanes read, so that no other one waits, and neighbours what
  // lies side by side: of its row elements i + c 32 / down, of group i / 4 + 8 c.
  uint32 down = place.down, i = lane / down, further = 32 / down;
  uint32 to = i % 4 * apart + (threadIdx.x & ~31u) + lane % down + i / 4 * down;
  uint32 target = (uint32)__cvta_generic_to_shared(kept + to);
  auto is_kept = [&](int32 first) { return WHOLE || first >= rest; };
  auto copy = [&](int32 first, int32 at) {
    if (!is_kept(first)) return;
    first -= 3 * i;
    const Element* next = next_x + first * given.k_stride;
#pragma unroll
    for (int32 c = 0; c < 4; ++c, first += further, next += further * given.k_stride) {
      copy_async(target + (at + 8 * c) * (uint32)sizeof(Element), next,
                 first < next_end);
    }
  };
  Element* own = kept + threadIdx.x;
  // Four neighbours; no element of the rest is k or beyond.
  auto read = [&](int32 first, int32 at, Element (&element)[4]) {
#pragma unroll
    for (int32 c = 0; c < 4; ++c) {
      if (is_kept(first)) {
        element[c] = own[at + apart * c];
      } else {
        element[c] = load_element(own_x->part, (first + c) * given.k_stride);
        element[c] = shift_element(element[c], given.shifts, first + c);
      }
    }
  };
  auto pass = [&](int32 end, auto take) {
    int32 at = -rest / 4 * (int32)row_count;
    for (int32 first = begin; first < end; first += step, at += blockDim.x) {
      take(first, at);
    }
  };
  pass(k_padded, copy);
  for (; tile < count; tile += blocks) {
    own_x = next_x, end = next_end;
    commit_copies();
    wait_for_copies<0>();
    __syncwarp();
    Bits largest = 0;
    pass(end, [&](int32 first, int32 at) {
      Element element[4];
      read(first, at, element);
#pragma unroll
      for (int32 c = 0; c < 4; ++c) {
#ifdef SHIFTED
        if (is_kept(first) && first + c < k) {
          element[c] = shift_element(element[c], given.shifts, first + c);
          own[at + apart * c] = element[c];
        }
#endif
        largest = larger_bits(element[c], largest);
      }
    });
    uint64 bits = combine_row<false>(widen_bits(largest), held[0], place);
    int32 e = bits == 0 ? ZERO_ROW : exponent_of(bits);
    bool masked = is_sentinel(e);
    uint64 total = 0;
    pass(masked ? 0 : k, [&](int32 first, int32 at) {
      Element element[4];
      read(first, at, element);
#pragma unroll
      for (int32 c = 0; c < 4; ++c) total += square_of(element[c], rule.norm_bits - e);
    });
    total = combine_row<true>(total, held[1], place);
    int32 s = choose_exponent(e, (int64)total, rule);
    // Among all rows, of which each matrix has padded ones behind it.
    int64 row = (int64)tile * row_count + place.row;
    int64 padded = (int64)given.tiles * row_count - given.rows;
    if (end >= 0 && place.group == 0) {
      given.exponents[row - tile / given.tiles * padded] = s;
    }
    int8* out = given.out + row * k_padded;
    bool more = tile + blocks < count;
    if (more) find_row(tile + blocks);
    pass(k_padded, [&](int32 first, int32 at) {
      Element element[4] = {};
      if (!masked) read(first, at, element);
      __syncwarp();
      if (more) copy(first, at);
      encode_group(element, masked ? 0 : s, given.conjugate, out + first,
                   given.plane_stride);
    });
  }
}
