// Sums of digits of a part, least significant first: steps 1 to 3 of Engine.decode.
//
// Where double units are few, the macro INTEGER_SUMS keeps the digits in int64 until
// step 3 rounds them by two double operations each; an instruction on doubles becomes
// about two on words. Otherwise the digits are doubles. Both give the same bits.
#ifdef INTEGER_SUMS
typedef int64 Sum;
typedef uint32 Combined;
typedef uint32 Quotient;
#define FIRST_BIAS BIAS
#else
typedef double Sum;
typedef double Combined;
typedef double Quotient;
#define FIRST_BIAS 0
#endif
// |combination of residues| <= 383: positive with this bias.
#define BIAS 512
// x + MAGIC rounds |x| < 2^51 to an integer, which the low bits of the sum hold.
#define MAGIC 6755399441055744.0
#define HALF (1ll << (DIGIT_BITS - 1))

#ifdef INTEGER_SUMS
// Multiples of M that are added to x: |x| <= 64 products M <= 2^(51-b) M.
#define LIFT (1ll << (52 - DIGIT_BITS))

__device__ __forceinline__ Combined remove_bias(int32 biased) { return biased; }

// Two multiply-adds: the value has no sign to be extended.
__device__ __forceinline__ Sum add_weighted(double weight, Combined value, Sum d) {
  return d + (int64)weight * value;
}

// LIFT M, less what the biases of the combinations add.
__device__ __forceinline__ Sum first_sum(int32 part, int32 t) {
  int64 sum = LIFT * (int64)TABLE[t];
#pragma unroll
  for (int32 i = 0; i < MODULI; ++i) {
    sum -= BIAS * (int64)TABLE[WEIGHTS + (i * DIGITS + t) * PARTS + part];
  }
  return sum;
}

// |x| < 2^51; a conversion takes the double unit as long.
__device__ __forceinline__ double to_double(int64 x) {
  return __dadd_rn(__longlong_as_double(x + __double_as_longlong(MAGIC)), -MAGIC);
}

// x 2^by, rounded down.
__device__ __forceinline__ int64 shift(int64 x, int32 by) {
  return by < 0 ? x >> -by : x * (1ll << by);
}

// Step 1, for x + LIFT M. In units of 2^((T-1)b - TOP_SHIFT) M has 45 bits, so that
// 0 < top < 2^61, and the factor is 2^106 / M, at most 2^62. Before it is rounded the
// quotient is off by less than
//   2^(53-2b) 1.01 < 2^-20.9 for the digits left out, as |d| <= 2^52, M >= 2^((T-1)b-1),
//   2^-44 for the digit that is rounded down,
//   2^(53-b) 2^-53 <= 2^-37 for the factor, which is rounded to a double,
//   2^-42 for the product rounded down,
// in all less than 2^-20. What decodes is at most M/2 (1 - 2^-19), the capacity, away from
// a multiple of M: its quotient is 2^-20 or more away from where rounding decides, and no
// correction is needed.
__device__ __forceinline__ Quotient divide_by_modulus(const Sum (&d)[DIGITS]) {
  int64 top = shift(d[DIGITS - 1], TOP_SHIFT);
#if DIGITS > 1
  top += shift(d[DIGITS - 2], TOP_SHIFT - DIGIT_BITS);
#endif
  return (uint32)((__umul64hi(top, (int64)TABLE[TOP_FACTOR]) + (1ll << 41)) >> 42);
}

__device__ __forceinline__ void subtract_multiple(Sum (&d)[DIGITS], Quotient q) {
#pragma unroll
  for (int32 t = 0; t < DIGITS; ++t) d[t] -= (int64)TABLE[t] * q;
}

// Step 2: `halves` is set where a digit is -2^(b-1).
__device__ __forceinline__ void carry_digits(Sum (&d)[DIGITS], bool& halves) {
#pragma unroll
  for (int32 t = 0; t < DIGITS - 1; ++t) {
    int64 lifted = d[t] + HALF;
    d[t] = (lifted & (2 * HALF - 1)) - HALF;
    d[t + 1] += lifted >> DIGIT_BITS;
    halves |= d[t] == -HALF;
  }
}
#else
// Exact, 0 <= biased < 2^32: the double 2^52 + biased has it as its low word.
__device__ __forceinline__ Combined remove_bias(int32 biased) {
  return __dadd_rn(__hiloint2double(0x43300000, biased), -(4503599627370496.0 + BIAS));
}

__device__ __forceinline__ Sum add_weighted(double weight, Combined value, Sum d) {
  return __fma_rn(weight, value, d);
}

__device__ __forceinline__ Sum first_sum(int32 part, int32 t) { return 0.0; }

__device__ __forceinline__ double to_double(double x) { return x; }

// Step 1: the two leading digits over M, rounded.
__device__ __forceinline__ Quotient divide_by_modulus(const Sum (&d)[DIGITS]) {
  double q = __dmul_rn(d[DIGITS - 1], TABLE[FACTORS]);
#if DIGITS > 1
  q = __dadd_rn(q, __dmul_rn(d[DIGITS - 2], TABLE[FACTORS + 1]));
#endif
  return __dadd_rn(__dadd_rn(q, MAGIC), -MAGIC);
}

__device__ __forceinline__ void subtract_multiple(Sum (&d)[DIGITS], Quotient q) {
#pragma unroll
  for (int32 t = 0; t < DIGITS; ++t) d[t] = __fma_rn(-q, TABLE[t], d[t]);
}

// Step 2: `halves` is set where a digit is -2^(b-1).
__device__ __forceinline__ void carry_digits(Sum (&d)[DIGITS], bool& halves) {
  const double unit = power_of_two(DIGIT_BITS), inverse = power_of_two(-DIGIT_BITS);
#pragma unroll
  for (int32 t = 0; t < DIGITS - 1; ++t) {
    double u = __fma_rd(__dadd_rn(d[t], HALF), inverse, MAGIC);
    u = __dadd_rn(u, -MAGIC);
    d[t] = __fma_rn(-u, unit, d[t]);
    d[t + 1] = __dadd_rn(d[t + 1], u);
    // |d[t]| <= 2^(b-1): the high word decides.
    halves |= __double2hiint(d[t]) == __double2hiint(-(double)HALF);
  }
}
#endif

// The digits of a negative integer's magnitude, negated. They differ from its own only
// where one is -2^(b-1); rare.
__device__ __forceinline__ void mirror_digits(Sum (&d)[DIGITS]) {
  Sum leading = 0, carry = 0;
#pragma unroll
  for (int32 t = 0; t < DIGITS; ++t) leading = d[t] == 0 ? leading : d[t];
  if (leading >= 0) return;
#pragma unroll
  for (int32 t = 0; t < DIGITS; ++t) {
    d[t] -= carry;
    bool low = t < DIGITS - 1 && d[t] <= -HALF;
    carry = low ? 1 : 0;
    if (low) d[t] += 2 * HALF;
  }
}

// Step 3: the sum of the digits, and with 2 components what its rounding leaves. Products by
// powers of two are exact, so that fusing them changes nothing.
template <int COUNT>
__device__ __forceinline__ void sum_digits(const Sum (&d)[DIGITS], double (&v)[COUNT]) {
  double high = to_double(d[0]), low = 0.0;
#pragma unroll
  for (int32 t = 1; t < DIGITS; ++t) {
    double digit = to_double(d[t]), scale = power_of_two(t * DIGIT_BITS);
    double total = __fma_rn(digit, scale, high);
    if (COUNT == 2) {
      double part = __dadd_rn(total, -__dmul_rn(digit, scale));
      low = __dadd_rn(low, __dadd_rn(high, -part));
    }
    high = total;
  }
  v[0] = high;
  if (COUNT == 2) v[COUNT - 1] = low;
}
