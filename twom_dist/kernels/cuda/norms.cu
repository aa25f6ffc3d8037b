// Norm pass: largest exponent, scaling exponent and octaves of each row; of stacks one
// matrix for each z.
//
// Macros: REAL, PARTS, SHIFTED. The two passes over x must each move sizeof(element)
// rows k bytes; each thread reduces a strip in registers and ends with one atomic,
// which is exact in any order. All is done in integers: 8 instructions for each part,
// whatever the device's double rate.
#include "norms.cuh"

// The operands are x and y; without y its sizes are 0 and its span is 1. What is written
// is contiguous: largest[z, row], sums[kind, z, row], counts[z, row, place].

// largest[row] = max(largest[row], exponents of its parts); `largest` is filled with
// ZERO_ROW before. Also clears what later kernels add to, unless it is null: sums[i,
// row], i < kinds, and counts[row, i].
extern "C" __global__ void __launch_bounds__(256)
largest_exponents(Side x, Side y, int32 kinds) {
  Side side = x;
  uint32 block = blockIdx.x;
  if (!claim_block(block, x.own)) side = y;
  Operand own = take_matrix(side.own);
  Strip strip = locate_strip(own, block);
  int64 row = blockIdx.z * own.rows + strip.row, count = gridDim.z * own.rows;
  if (strip.leads && side.sums != nullptr) {
    for (int32 i = 0; i < kinds; ++i) side.sums[i * count + row] = 0;
  }
  if (strip.leads && side.counts != nullptr) {
    for (int32 i = 0; i < COUNTED; ++i) side.counts[row * COUNTED + i] = 0;
  }
  Bits own_largest = 0;
#pragma unroll 4
  for (int64 c = strip.first; c < strip.last; c += strip.step) {
    Element element = shift_element(load_element(own, strip, c), side.shifts, c);
    own_largest = larger_bits(element, own_largest);
  }
  if (own_largest != 0) {
    // Other kernels read them alone.
    atomicMax((int32*)side.largest + row, exponent_of(widen_bits(own_largest)));
  }
}

// out[row * k + c] = the octaves of the largest part of an entry below the largest
// exponent of its row, as octave_of has it. Grid as of scale_and_add, z over matrices.
// Must move sizeof(element) + 1 bytes.
extern "C" __global__ void __launch_bounds__(256)
octaves(const REAL* x, int64 rows, int64 k, int64 row_stride, int64 k_stride,
        int64 stack_stride, const int32* largest, const int32* shifts, uint8* out) {
  x += PARTS * (blockIdx.z * stack_stride);
  largest += blockIdx.z * rows;
  out += blockIdx.z * rows * k;
  int64 c = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= k) return;
  int64 row = (int64)blockIdx.y * blockDim.y + threadIdx.y;
  for (; row < rows; row += (int64)gridDim.y * blockDim.y) {
    Element element = load_element(x, row * row_stride + c * k_stride);
    Bits bits = larger_bits(shift_element(element, shifts, c), 0);
    out[row * k + c] = (uint8)octave_of(bits, largest[row]);
  }
}

// exponents[row] = ScalingRule.exponent(largest[row], sums[row]); 16 bytes a row.
extern "C" __global__ void __launch_bounds__(256)
choose_exponents(const int32* largest, const int64* sums, int64 rows, Rule rule,
                 int32* exponents) {
  int64 row = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  exponents[row] = choose_exponent(largest[row], sums[row], rule);
}
