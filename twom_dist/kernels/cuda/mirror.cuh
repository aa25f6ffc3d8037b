// Elements of a mirror image, conjugated or not.
#include "scalars.cuh"

// The sign of the imaginary part changed: 0 - im, for a part of a result.
__device__ __forceinline__ Element conjugate_element(Element x, int32 conjugate) {
#if PARTS == 2
  if (conjugate) x.part[1] = make_canonical(flip_sign(x.part[1]));
#endif
  return x;
}
