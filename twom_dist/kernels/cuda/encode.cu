// Encode: x' = rint(x 2^s) and its int8 residue planes, one pass over x.
//
// Macros: those of encode.cuh. Must move sizeof(element) + planes bytes an element. With
// x' biased to unsigned, a residue is a chain of dp4a over its bytes with the weights
// w 2^(8i) mod p, w the plane's, and two instructions of reduction. For 2M and WORDS = 2
// that is 57 instructions of sm_90 a modulus and thread, four elements: for 16 moduli 2.1
// clocks an element and SM of an H200, whose bytes take 2.7. The kernel hardly uses the
// double pipe.
#include "encode.cuh"

// out[plane * plane_stride + row * k_padded + c], zeros where row >= rows or c >= k. The
// matrices of a stack, one for each blockIdx.y, begin padded_rows after one another.
extern "C" __global__ void __launch_bounds__(256)
encode(const REAL* x, int64 rows, int64 k, int64 row_stride, int64 k_stride,
       const int32* exponents, const int32* shifts, int32 conjugate, int8* out,
       int64 padded_rows, int64 k_padded, int64 plane_stride, int32 across,
       int32 rows_of_block, int64 stack_stride) {
  x += PARTS * (blockIdx.y * stack_stride);
  exponents += blockIdx.y * rows;
  out += blockIdx.y * padded_rows * k_padded;
  Group group = locate_group(padded_rows, k_padded, across, rows_of_block);
  if (group.row >= padded_rows || group.first >= k_padded) return;
  int32 s = group.row < rows ? exponents[group.row] : NONFINITE_ROW;
  bool masked = is_sentinel(s);
  Element element[4] = {};
  x += PARTS * group.row * row_stride;
#pragma unroll
  for (int32 c = 0; c < 4; ++c) {
    int64 own = group.first + c;
    if (masked || own >= k) continue;
    element[c] = shift_element(load_element(x, own * k_stride), shifts, own);
  }
  out += group.row * k_padded + group.first;
  encode_group(element, masked ? 0 : s, conjugate, out, plane_stride);
}
