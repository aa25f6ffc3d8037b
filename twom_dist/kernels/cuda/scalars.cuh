// alpha and beta c: steps 5 and 6 of Engine.decode.
#include "elements.cuh"

// How a scalar multiplies; the names of tables.py in the same order.
enum Scalar { NONE, ONE, REAL_SCALAR, COMPLEX_SCALAR };

// v = factor v without fused operations; by parts where the factor is real.
__device__ __forceinline__ void multiply_scalar(double (&v)[PARTS], int32 mode,
                                                double re, double im) {
  if (mode == COMPLEX_SCALAR) {
    double x = v[0], y = v[PARTS - 1];
    v[0] = __dadd_rn(__dmul_rn(re, x), -__dmul_rn(im, y));
    v[PARTS - 1] = __dadd_rn(__dmul_rn(re, y), __dmul_rn(im, x));
  } else if (mode != ONE) {
#pragma unroll
    for (int32 part = 0; part < PARTS; ++part) v[part] = __dmul_rn(v[part], re);
  }
}

// Steps 5 and 6. c may be out itself: a thread reads its elements before writing them.
__device__ __forceinline__ void store_element(double (&v)[PARTS], const REAL* c,
                                              REAL* out, int32 beta_mode,
                                              double beta_re, double beta_im) {
  if (beta_mode != NONE) {
    double w[PARTS];
#if PARTS == 2
    Pair pair = *reinterpret_cast<const Pair*>(c);
    w[0] = (double)pair.x;
    w[1] = (double)pair.y;
#else
    w[0] = (double)*c;
#endif
    multiply_scalar(w, beta_mode, beta_re, beta_im);
#pragma unroll
    for (int32 part = 0; part < PARTS; ++part) v[part] = __dadd_rn(v[part], w[part]);
  }
#if PARTS == 2
  Pair result;
  result.x = (REAL)v[0];
  result.y = (REAL)v[1];
  *reinterpret_cast<Pair*>(out) = result;
#else
  *out = (REAL)v[0];
#endif
}
