// alpha and beta c: steps 5 and 6 of Engine.decode.
#include "elements.cuh"

// How a scalar multiplies: not at all, by 1, each part by a real number, or as a
// complex number.
enum Mode { NONE, ONE, REAL_SCALAR, COMPLEX_SCALAR };

struct Scalar {
  int32 mode;
  double re, im;
};

// A matrix, or a stack, that may be missing: strides in elements.
struct Matrix {
  const REAL* x;
  int64 row_stride, column_stride, stack_stride;
};

// An element of this block's matrix.
__device__ __forceinline__ const REAL* locate(const Matrix& own, int64 i, int64 j) {
  int64 place = i * own.row_stride + j * own.column_stride;
  return own.x + PARTS * (blockIdx.z * own.stack_stride + place);
}

// A stack, moved so that `locate` finds the matrix at a place.
__device__ __forceinline__ Matrix move(Matrix own, uint32 place) {
  own.x += PARTS * (((int64)place - blockIdx.z) * own.stack_stride);
  return own;
}

// v = factor v without fused operations; by parts where the factor is real.
__device__ __forceinline__ void multiply_scalar(double (&v)[PARTS], const Scalar& factor) {
  if (factor.mode == COMPLEX_SCALAR) {
    double x = v[0], y = v[PARTS - 1];
    v[0] = __dadd_rn(__dmul_rn(factor.re, x), -__dmul_rn(factor.im, y));
    v[PARTS - 1] = __dadd_rn(__dmul_rn(factor.re, y), __dmul_rn(factor.im, x));
  } else if (factor.mode != ONE) {
#pragma unroll
    for (int32 part = 0; part < PARTS; ++part) v[part] = __dmul_rn(v[part], factor.re);
  }
}

// v = factor times an element.
__device__ __forceinline__ void load_scaled(double (&v)[PARTS], const REAL* source,
                                            const Scalar& factor) {
  Element given = load_element<true>(source, 0);
#pragma unroll
  for (int32 part = 0; part < PARTS; ++part) v[part] = widen(given.part[part]);
  multiply_scalar(v, factor);
}

// Steps 5 and 6.
__device__ __forceinline__ Element make_element(double (&v)[PARTS], const REAL* c,
                                                const Scalar& beta) {
  if (beta.mode != NONE) {
    double w[PARTS];
    load_scaled(w, c, beta);
#pragma unroll
    for (int32 part = 0; part < PARTS; ++part) v[part] = __dadd_rn(v[part], w[part]);
  }
  Element x;
#pragma unroll
  for (int32 part = 0; part < PARTS; ++part) {
    narrow(v[part], x.part[part]);
    x.part[part] = make_canonical(x.part[part]);
  }
  return x;
}

// c may be out itself: a thread reads its elements before writing them.
__device__ __forceinline__ void store_element(double (&v)[PARTS], const REAL* c,
                                              REAL* out, const Scalar& beta) {
  write_element(out, 0, make_element(v, c, beta));
}

// An element of a mirror image, whose imaginary part changes its sign if it is
// conjugated: 0 - im.
__device__ __forceinline__ Element conjugate_element(Element x, int32 conjugate) {
#if PARTS == 2
  if (conjugate) x.part[1] = make_canonical(flip_sign(x.part[1]));
#endif
  return x;
}
