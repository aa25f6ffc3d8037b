// Eisenstein integers: the steps of Engine.encode and Engine.decode for parts g and h of
// (g + h sqrt(-3)) / 2. Included where `Integer` and `quantise`, or `reduce_digits`,
// `sum_digits` and `sum_mirrored` are known.
#ifdef HEXAGONAL

// The two words of kernels/hexagonal.py: 1/sqrt(3), sqrt(3)/2.
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
// The part, over M, of its two leading digits.
__device__ __forceinline__ double over_modulus(const double (&d)[DIGITS],
                                               const double* modulus) {
  double q = __dmul_rn(d[DIGITS - 1], __ldg(modulus + DIGITS));
#if DIGITS > 1
  q = __dadd_rn(q, __dmul_rn(d[DIGITS - 2], __ldg(modulus + DIGITS + 1)));
#endif
  return q;
}

// Balanced digits of both parts to those of the point of the cell around 0; rare.
__device__ __forceinline__ void lift_to_cell(double (&d)[2][DIGITS],
                                             const double* modulus, double unit,
                                             double inverse, bool& halves) {
  double middle = __dmul_rn(0.5, __dadd_rn(d[0][0], d[1][0]));
  if (middle == rint(middle)) return;
  double u = over_modulus(d[0], modulus), v = over_modulus(d[1], modulus);
  bool second = __dadd_rn(__dmul_rn(3.0, fabs(v)), -fabs(u)) > 1.0;
  double shift[2] = {second ? 0.0 : u < 0.0 ? -1.0 : 1.0,
                     !second ? 0.0 : v < 0.0 ? -1.0 : 1.0};
  double half = 0.5 * unit;
#pragma unroll
  for (int32 part = 0; part < 2; ++part) {
    double carry = 0.0;
#pragma unroll
    for (int32 t = 0; t < DIGITS; ++t) {
      double digit = __fma_rn(-shift[part], __ldg(modulus + t), d[part][t]);
      digit = __dadd_rn(digit, carry);
      if (t < DIGITS - 1) {
        carry = floor(__dmul_rn(__dadd_rn(digit, half), inverse));
        digit = __fma_rn(-carry, unit, digit);
        halves |= digit == -half;
      }
      d[part][t] = digit;
    }
  }
}

// h sqrt(3) / 2 of the digits of h, or of their negatives, carried.
__device__ __forceinline__ double times_half_root(const double (&d)[DIGITS],
                                                  double unit, bool negative) {
  double half = 0.5 * unit, scale = 1.0, carry = 0.0, v = 0.0, w = 0.0;
#pragma unroll
  for (int32 t = 0; t < DIGITS; ++t) {
    double digit = __dadd_rn(carry, negative ? -d[t] : d[t]);
    carry = 0.0;
    if (negative && t < DIGITS - 1 && digit >= half) {
      digit -= unit;
      carry = 1.0;
    }
    double top = __dmul_rn(digit, scale);
    double total = __dadd_rn(top, v);
    w = __dadd_rn(w, __dadd_rn(v, -__dadd_rn(total, -top)));
    v = total;
    scale *= unit;
  }
  double product = __dmul_rn(v, HALF_FIRST);
  double rest = __dadd_rn(__dmul_rn(v, HALF_SECOND), __dmul_rn(w, HALF_FIRST));
  rest = __dadd_rn(__fma_rn(v, HALF_FIRST, -product), rest);
  product = __dadd_rn(product, rest);
  return negative ? -product : product;
}

// Steps 1 to 3.
__device__ __forceinline__ void point_to_doubles(double (&d)[2][DIGITS],
                                                 const double* modulus, double unit,
                                                 double inverse, double (&v)[2]) {
  bool halves = false;
  reduce_digits(d[0], modulus, unit, inverse, halves);
  reduce_digits(d[1], modulus, unit, inverse, halves);
  lift_to_cell(d, modulus, unit, inverse, halves);
  v[0] = sum_digits(d[0], unit);
  v[1] = times_half_root(d[1], unit, false);
  if (halves) {
    if (v[0] < 0.0) v[0] = sum_mirrored(d[0], unit);
    if (v[1] < 0.0) v[1] = times_half_root(d[1], unit, true);
  }
  v[0] = __dmul_rn(0.5, v[0]);
}
#endif
#endif
