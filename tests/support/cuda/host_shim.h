// CUDA as the host's C++ compiler sees it: what the kernels use, thread after thread.
#include <cfenv>
#include <cstring>

#define __global__
#define __device__
#define __constant__ static
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__

struct dim3 {
  unsigned int x, y, z;
};
static dim3 threadIdx, blockIdx, blockDim, gridDim;

struct alignas(8) uint2 {
  unsigned int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) longlong2 {
  long long x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned int x, y, z, w;
};
static inline uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z,
                               unsigned int w) {
  return uint4{x, y, z, w};
}
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) double2 {
  double x, y;
};

template <class To, class From> static inline To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "sizes differ");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

template <class T> static inline T __ldg(const T* address) { return *address; }

template <class T> static inline T atomicMax(T* address, T value) {
  T old = *address;
  if (value > old) *address = value;
  return old;
}

template <class T> static inline T atomicMin(T* address, T value) {
  T old = *address;
  if (value < old) *address = value;
  return old;
}

// Blocks run one after the other.
static inline void __threadfence() {}

template <class T> static inline T atomicAdd(T* address, T value) {
  T old = *address;
  *address = old + value;
  return old;
}

// --- integers ---------------------------------------------------------------------

static inline unsigned int __dp4a(unsigned int a, unsigned int b, unsigned int c) {
  for (int i = 0; i < 4; ++i) c += (a >> 8 * i & 255) * (b >> 8 * i & 255);
  return c;
}

static inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) c += (signed char)(a >> 8 * i) * (signed char)(b >> 8 * i);
  return c;
}

static inline unsigned int __vminu2(unsigned int a, unsigned int b) {
  unsigned int low = (a & 65535) < (b & 65535) ? a & 65535 : b & 65535;
  return low | (a >> 16 < b >> 16 ? a >> 16 : b >> 16) << 16;
}

static inline unsigned int __byte_perm(unsigned int x, unsigned int y,
                                       unsigned int selector) {
  unsigned long long both = (unsigned long long)y << 32 | x;
  unsigned int out = 0;
  for (int i = 0; i < 4; ++i) {
    out |= (unsigned int)(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  }
  return out;
}

static inline unsigned long long __umul64hi(unsigned long long x,
                                            unsigned long long y) {
  return (unsigned long long)((unsigned __int128)x * y >> 64);
}

static inline int __popc(unsigned int x) { return __builtin_popcount(x); }
static inline int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll((unsigned long long)x);
}

static inline int __ffs(int x) { return __builtin_ffs(x); }

// --- bits of floating-point numbers -----------------------------------------------

static inline unsigned int __float_as_uint(float x) { return bit_cast<unsigned int>(x); }
static inline float __uint_as_float(unsigned int x) { return bit_cast<float>(x); }
static inline long long __double_as_longlong(double x) { return bit_cast<long long>(x); }
static inline double __longlong_as_double(long long x) { return bit_cast<double>(x); }
static inline int __double2hiint(double x) {
  return (int)((unsigned long long)bit_cast<long long>(x) >> 32);
}
static inline double __hiloint2double(int high, int low) {
  unsigned long long bits = (unsigned long long)(unsigned int)high << 32;
  return bit_cast<double>(bits | (unsigned int)low);
}

// --- arithmetic, as the IEEE 754 operation named ------------------------------------

static inline double __dadd_rn(double x, double y) { return x + y; }
static inline double __dmul_rn(double x, double y) { return x * y; }
static inline double __ddiv_rn(double x, double y) { return x / y; }
static inline double __fma_rn(double x, double y, double z) {
  return __builtin_fma(x, y, z);
}
static inline double __fma_rd(double x, double y, double z) {
  volatile double a = x, b = y, c = z;
  fesetround(FE_DOWNWARD);
  volatile double out = __builtin_fma(a, b, c);
  fesetround(FE_TONEAREST);
  return out;
}
static inline float __fmaf_ieee_rn(float x, float y, float z) {
  return __builtin_fmaf(x, y, z);
}
static inline double __dsqrt_rn(double x) { return __builtin_sqrt(x); }
static inline float rsqrtf(float x) { return 1 / __builtin_sqrtf(x); }
static inline float __ull2float_rn(unsigned long long x) { return (float)x; }

// Not by <cmath>, which takes the compiler as long as the rest.
#define OF_BOTH(name)                                                 \
  static inline double name(double x) { return __builtin_##name(x); } \
  static inline float name(float x) { return __builtin_##name##f(x); }
OF_BOTH(ceil)
OF_BOTH(fabs)
OF_BOTH(floor)
OF_BOTH(rint)

// --- conversions ------------------------------------------------------------------

static inline int __float2int_rn(float x) { return (int)__builtin_nearbyintf(x); }
static inline int __double2int_rn(double x) { return (int)__builtin_nearbyint(x); }
static inline unsigned int __double2uint_rz(double x) { return (unsigned int)x; }
static inline long long __double2ll_rn(double x) {
  return (long long)__builtin_nearbyint(x);
}
static inline long long __double2ll_rz(double x) { return (long long)x; }
static inline double __ll2double_rn(long long x) { return (double)x; }
static inline double __int2double_rn(int x) { return (double)x; }
static inline double __uint2double_rn(unsigned int x) { return (double)x; }

// --- undefined behaviour: the line of the last place where some was met ---------------

static unsigned int undefined_line;

// --- shared memory: of a size that a launch says, beyond which nobody may write, and
// behind it that of a kernel's own ------------------------------------------------------

#define LARGEST_SHARED (228 << 10)
#define OWN_SHARED (2 * LARGEST_SHARED)
#define LARGEST_OWN 49152
alignas(128) static unsigned char dynamic_shared[OWN_SHARED + LARGEST_OWN];

static void guard_shared(unsigned int size) {
  memset(dynamic_shared + size, 0xA5, OWN_SHARED - size);
}

static void check_shared(unsigned int size, unsigned int line) {
  for (unsigned int i = size; i < OWN_SHARED; ++i) {
    if (dynamic_shared[i] != 0xA5) undefined_line = line;
  }
}

static unsigned long __cvta_generic_to_shared(const void* x) {
  return (const unsigned char*)x - dynamic_shared;
}

#pragma GCC visibility push(hidden)
extern "C" {
struct SourceLocation {
  const char* file;
  unsigned int line, column;
};
#define NOTE(name, ...)                                       \
  void __ubsan_handle_##name(SourceLocation* where, ##__VA_ARGS__) { \
    undefined_line = where->line;                             \
  }
NOTE(type_mismatch_v1, void*)  // a misaligned address
NOTE(shift_out_of_bounds, void*, void*)
NOTE(add_overflow, void*, void*)
NOTE(sub_overflow, void*, void*)
NOTE(mul_overflow, void*, void*)
NOTE(divrem_overflow, void*, void*)
NOTE(negate_overflow, void*)
NOTE(out_of_bounds, void*)
NOTE(float_cast_overflow, void*)
}
#pragma GCC visibility pop
