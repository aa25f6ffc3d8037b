// Bounds: magnitudes and their products' maxima, for estimates of |A||B|.
//
// Macros: REAL, PARTS. A comparison's path: clear rather than fast.
#include "elements.cuh"

// ceil(sqrt(square)) for square <= 2 * 64^2: no root of a non-square lies within
// 1 / 182 of an integer, so that the rounded root's floor is right.
__device__ __forceinline__ uint32 ceil_root(uint32 square) {
  uint32 root = (uint32)__fsqrt_rn((float)square);
  return root + (root * root < square);
}

// plane[row * k_padded + c] = ceil(hypot of the parts' ceil(|part| 2^(6 - e))) <= 91,
// zeros in sentinel rows and where row >= rows or c >= k. Grid as for encode. Must move
// sizeof(element) + 1 bytes an element.
extern "C" __global__ void __launch_bounds__(256)
magnitudes(const REAL* x, int64 rows, int64 k, int64 row_stride, int64 k_stride,
           const int32* largest, int8* plane, int64 padded_rows, int64 k_padded,
           int32 across, int32 rows_of_block) {
  Group group = locate_group(padded_rows, k_padded, across, rows_of_block);
  if (group.row >= padded_rows || group.first >= k_padded) return;
  int32 e = group.row < rows ? largest[group.row] : ZERO_ROW;
  uint32 root[4];
#pragma unroll
  for (int32 c = 0; c < 4; ++c) {
    root[c] = 0;
    if (!is_sentinel(e) && group.first + c < k) {
      int64 offset = group.row * row_stride + (group.first + c) * k_stride;
      Element element = load_element(x, offset);
      uint32 square = 0;
#pragma unroll
      for (int32 part = 0; part < PARTS; ++part) {
        uint64 own = widen_bits(magnitude_bits(element.part[part]));
        uint32 scaled = ceil_scaled(own, 6 - e);  // <= 64
        square += scaled * scaled;
      }
      root[c] = ceil_root(square);
    }
  }
  *reinterpret_cast<uint32*>(plane + group.row * k_padded + group.first) =
      pack_bytes(root[0], root[1], root[2], root[3]);
}

// bound[i * n + j] += sums[i * ld + j]. Blocks of 32 x 8: x over columns, y over rows,
// any number of blocks in y. Must move 20 bytes an element.
extern "C" __global__ void __launch_bounds__(256)
add_sums(const int32* sums, int64 ld, int64 m, int64 n, int64* bound) {
  int64 j = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= n) return;
  int64 i = (int64)blockIdx.y * blockDim.y + threadIdx.y;
  for (; i < m; i += (int64)gridDim.y * blockDim.y) bound[i * n + j] += sums[i * ld + j];
}

// maxima[row] = max(maxima[row], bound[row * row_stride + c * column_stride]); bounds
// are never negative, maxima zeroed before. Grid as for the norms, `across` for the
// columns of a row-major matrix. Must move 8 bytes an element.
extern "C" __global__ void __launch_bounds__(256)
row_maxima(const int64* bound, int64 rows, int64 columns, int64 row_stride,
           int64 column_stride, int64 span, int32 across, uint64* maxima) {
  Strip strip = locate_strip(rows, columns, span, across);
  uint64 largest = 0;
#pragma unroll 4
  for (int64 c = strip.first; c < strip.last; c += strip.step) {
    uint64 own = (uint64)bound[strip.row * row_stride + c * column_stride];
    largest = own > largest ? own : largest;
  }
  if (largest != 0) atomicMax(maxima + strip.row, largest);
}
