// Eisenstein integers: the steps of Engine.encode and Engine.decode for parts g and h of
// (g + h sqrt(-3)) / 2. Included where `Integer` and `quantise`, or digits.cuh, are known.
#ifdef HEXAGONAL

// The two components of kernels/hexagonal.py: 1/sqrt(3), sqrt(3)/2.
#define INVERSE_FIRST 0x1.279a74590331cp-1
#define INVERSE_SECOND 0x1.34863e0792bedp-55
#define HALF_FIRST 0x1.bb67ae8584caap-1
#define HALF_SECOND 0x1.cec95d0b5c1e3p-55

#ifdef WORDS
// x += rest.
__device__ __forceinline__ void add_rest(Integer& x, int32 rest) {
  int64 carry = rest;
#pragma unroll
  for (int32 t = 0; t < WORDS; ++t) {
    carry += x.word[t];
    x.word[t] = (uint32)carry;
    carry >>= 32;
  }
}

// g and h of the point nearest to re + i im. |r| <= 2^27, for y below 2^80.
__device__ __forceinline__ void nearest_point(double re, double im, Integer& g,
                                              Integer& h) {
  double x = fabs(re), y = fabs(im);
  double first = __dmul_rn(y, INVERSE_FIRST);
  double second = __dadd_rn(__fma_rn(y, INVERSE_FIRST, -first),
                            __dmul_rn(y, INVERSE_SECOND));
  double m = rint(x), n = rint(first);
  double left = __dadd_rn(__dadd_rn(first, -n), second);
  double r = rint(left);
  double u = __dadd_rn(x, -m), v = __dadd_rn(left, -r);
  bool odd = __dadd_rn(fabs(u), __dmul_rn(3.0, fabs(v))) > 1.0;
  int32 rest_g = !odd ? 0 : u < 0.0 ? -1 : 1;
  int32 rest_h = 2 * __double2int_rn(r) + (!odd ? 0 : v < 0.0 ? -1 : 1);
  bool left_half = __double2hiint(re) < 0, lower_half = __double2hiint(im) < 0;
  g = quantise(left_half ? -2.0 * m : 2.0 * m);
  h = quantise(lower_half ? -2.0 * n : 2.0 * n);
  add_rest(g, left_half ? -rest_g : rest_g);
  add_rest(h, lower_half ? -rest_h : rest_h);
}
#endif

#ifdef DIGITS
// Balanced digits of both parts to those of the point of the cell around 0; rare.
__device__ __forceinline__ void lift_to_cell(Sum (&d)[2][DIGITS], bool& halves) {
  double middle = __dmul_rn(0.5, __dadd_rn(to_double(d[0][0]), to_double(d[1][0])));
  if (middle == rint(middle)) return;
  double u = over_modulus(d[0]), v = over_modulus(d[1]);
  bool second = __dadd_rn(__dmul_rn(3.0, fabs(v)), -fabs(u)) > 1.0;
  Sum shift[2] = {second ? 0 : u < 0.0 ? -1 : 1, !second ? 0 : v < 0.0 ? -1 : 1};
#pragma unroll
  for (int32 part = 0; part < 2; ++part) {
#pragma unroll
    for (int32 t = 0; t < DIGITS; ++t) d[part][t] -= shift[part] * (Sum)TABLE[t];
    carry_digits(d[part], halves);
  }
}

// h sqrt(3) / 2, for the two components of h.
__device__ __forceinline__ void times_half_root(const double (&h)[2],
                                                double (&v)[RESULTS]) {
  double product = __dmul_rn(h[0], HALF_FIRST);
  double rest = __dadd_rn(__dmul_rn(h[0], HALF_SECOND), __dmul_rn(h[1], HALF_FIRST));
  rest = __dadd_rn(__fma_rn(h[0], HALF_FIRST, -product), rest);
  v[0] = __dadd_rn(product, rest);
#if RESULTS == 2
  v[1] = __dadd_rn(rest, -__dadd_rn(v[0], -product));
#endif
}

// Step 3.
__device__ __forceinline__ void point_to_doubles(const Sum (&d)[2][DIGITS],
                                                 double (&v)[RESULTS][2]) {
  double g[RESULTS], h[2], root[RESULTS];
  sum_digits(d[0], g);
  sum_digits(d[1], h);
  times_half_root(h, root);
#pragma unroll
  for (int32 word = 0; word < RESULTS; ++word) {
    v[word][0] = __dmul_rn(0.5, g[word]);
    v[word][1] = root[word];
  }
}
#endif
#endif
