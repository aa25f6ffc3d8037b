// Mirror images of elements: how a triangle closes a square tile.
#include "scalars.cuh"

// The sign of the imaginary part changed: 0 - im, for a part of a result.
__device__ __forceinline__ Element conjugate_element(Element x, int32 conjugate) {
#if PARTS == 2
  if (conjugate) x.part[1] = make_canonical(flip_sign(x.part[1]));
#endif
  return x;
}

// The mirror image of element (i, j) of an n x n tile, or zero; a diagonal one becomes
// real where the image is conjugated.
__device__ __forceinline__ void close_element(REAL* tile, int64 n, int64 i, int64 j,
                                              int32 conjugate, int32 full) {
  int64 own = i * n + j;
  if (i != j) {
    Element x = {};
    if (full) x = conjugate_element(read_element(tile, own), conjugate);
    write_element(tile, j * n + i, x);
  } else if (PARTS == 2 && conjugate) {
    Element x = read_element(tile, own);
    x.part[PARTS - 1] = 0;
    write_element(tile, own, x);
  }
}
