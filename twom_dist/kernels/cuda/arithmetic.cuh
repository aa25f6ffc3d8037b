// Integer types, and the reduction that encode, requantise, products and combine share.
// NVRTC has no standard headers; sizes are those of CUDA's own types.
typedef signed char int8;
typedef unsigned char uint8;
typedef short int16;
typedef unsigned short uint16;
typedef int int32;
typedef unsigned int uint32;
typedef long long int64;
typedef unsigned long long uint64;

// twom_dist.moduli: exponents of rows without a nonzero, with an Inf, with a NaN.
#define ZERO_ROW ((int32)0xC0C0C0C0)
#define NONFINITE_ROW (1 << 30)
#define NAN_ROW (NONFINITE_ROW + 1)

// Every kernel begins with this (`text_of` in sources.py adds it), and touches no
// memory before it that other grids write. The next grid may start once all blocks of
// this one have started. It waits here in turn, so a grid that has ended has waited for
// all earlier ones.
__device__ __forceinline__ void wait_for_grids() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\ngriddepcontrol.wait;" ::: "memory");
#endif
}

// The residue of raw in the low byte: raw - rint(raw / p) p, symmetric.
//
// raw < 2^23 read as a float is the subnormal raw 2^-149; with inverse = 2^126 / p the
// fused sum 1.5 + 2^-23 raw / p is rounded to a multiple of 2^-23, so its bits are
// 0x3FC00000 + rint(raw / p): one instruction, and no conversion. The inverse is off by
// a relative 2^-24, the quotient by raw 2^-24 / p, and raw / p is 1 / (2p) or more away
// from a tie for odd p: exact for raw < 2^23. For p = 256 the inverse is exact; a tie
// gives +128 or -128, whose low bytes are equal. 0x3FC00000 is 0 modulo 256.
__device__ __forceinline__ uint32 residue_bits(uint32 raw, float inverse,
                                               uint32 minus_p) {
  float shifted = __fmaf_ieee_rn(__uint_as_float(raw), inverse, 1.5f);
  return raw + __float_as_uint(shifted) * minus_p;
}

// An int32 sum as raw: biased to unsigned, one dp4a with the weights 2^(8i) mod p.
// Entry of a modulus: {weights, start, inverse, -p}; start removes the bias and adds a
// multiple of p of 128 or more.
__device__ __forceinline__ uint32 weigh_sum(int32 sum, uint4 entry) {
  return __dp4a((uint32)sum ^ 0x80000000u, entry.x, entry.y);
}

__device__ __forceinline__ uint32 reduce_sum(int32 sum, uint4 entry) {
  return residue_bits(weigh_sum(sum, entry), __uint_as_float(entry.z), entry.w);
}

// The low bytes of four words, first word lowest.
__device__ __forceinline__ uint32 pack_bytes(uint32 a, uint32 b, uint32 c, uint32 d) {
  uint32 low = __byte_perm(a, b, 0x0040);
  uint32 high = __byte_perm(c, d, 0x0040);
  return __byte_perm(low, high, 0x5410);
}

// The residues of four sums.
__device__ __forceinline__ uint32 reduce_four(const uint32 (&raw)[4], float inverse,
                                              uint32 minus_p) {
  uint32 byte[4];
#pragma unroll
  for (int32 c = 0; c < 4; ++c) byte[c] = residue_bits(raw[c], inverse, minus_p);
  return pack_bytes(byte[0], byte[1], byte[2], byte[3]);
}

// A thread's element of a matrix that is cut into squares of 16 x 16, one for each
// block of 32 x 8 threads; the grid is one-dimensional. A warp covers 4 rows x 8
// columns, so it fills sectors of 32 bytes both where it reads along rows and where it
// writes along columns, or the other way round. Blocks walk down bands of 32 squares:
// the squares in flight form a square themselves, and touch few pages of memory in
// either direction.
struct Spot {
  int64 row, column;
};

__device__ __forceinline__ Spot locate_in_square(int64 rows, int64 columns) {
  uint32 down = (uint32)((rows + 15) / 16), across = (uint32)((columns + 15) / 16);
  uint32 first = blockIdx.x / (32 * across) * 32;
  uint32 height = down - first < 32 ? down - first : 32;
  uint32 left = blockIdx.x - first * across;
  Spot spot;
  spot.row = 16 * (int64)(first + left % height);
  spot.row += 4 * (threadIdx.y >> 1) + (threadIdx.x >> 3);
  spot.column = 16 * (int64)(left / height);
  spot.column += 8 * (threadIdx.y & 1) + (threadIdx.x & 7);
  return spot;
}

// Which elements of a square tile are wanted.
enum Triangle { FULL, LOWER, UPPER };

// Whether any of these rows x columns is.
__device__ __forceinline__ bool is_wanted(int32 triangle, int64 row, int32 rows,
                                          int64 column, int32 columns) {
  if (triangle == LOWER) return column < row + rows;
  if (triangle == UPPER) return row < column + columns;
  return true;
}
