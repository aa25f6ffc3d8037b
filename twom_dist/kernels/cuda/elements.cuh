// Elements of a rows x k operand in memory. REAL is float or double, and for results of
// samples also int32 or int64; PARTS is 1 or 2, interleaved. Strides are arbitrary, and
// count elements.
#include "arithmetic.cuh"

template <class T> struct Format;
#define FORMAT(type, pair, bits) \
  template <> struct Format<type> { typedef pair Pair; typedef bits Bits; }
FORMAT(float, float2, uint32);
FORMAT(double, double2, uint64);
FORMAT(int32, int2, uint32);
FORMAT(int64, longlong2, uint64);
typedef Format<REAL>::Pair Pair;
typedef Format<REAL>::Bits Bits;

struct alignas(PARTS * sizeof(REAL)) Element {
  REAL part[PARTS];
};

// Load an element by a single access, for which its address must be a multiple of its
// size. WRITTEN: the kernel also writes to this memory.
template <bool WRITTEN = false>
__device__ __forceinline__ Element load_element(const REAL* x, int64 offset) {
  const Element* source = reinterpret_cast<const Element*>(x) + offset;
  if (WRITTEN) return *source;
#if PARTS == 2
  Pair pair = __ldg(reinterpret_cast<const Pair*>(source));
  return {pair.x, pair.y};
#else
  return {__ldg(source->part)};
#endif
}

__device__ __forceinline__ void write_element(REAL* out, int64 offset, Element x) {
  reinterpret_cast<Element*>(out)[offset] = x;
}

// -t without arithmetic, which would flush subnormal floats.
__device__ __forceinline__ float flip_sign(float t) {
  return __uint_as_float(__float_as_uint(t) ^ 0x80000000u);
}

__device__ __forceinline__ double flip_sign(double t) {
  return __longlong_as_double(__double_as_longlong(t) ^ (long long)(1ull << 63));
}

template <class T> __device__ __forceinline__ T flip_sign(T t) { return -t; }

// The bits of |t|: they sort as the magnitudes do, infinities and then NaNs last.
__device__ __forceinline__ uint32 magnitude_bits(float t) {
  return __float_as_uint(t) & 0x7FFFFFFFu;
}

__device__ __forceinline__ uint64 magnitude_bits(double t) {
  return (uint64)__double_as_longlong(t) & 0x7FFFFFFFFFFFFFFFull;
}

// A part of a result, with positive zeros and a single NaN. Floats are compared as
// integers, since the option that CuPy appends (see below) makes comparisons take
// subnormal floats for zeros.
__device__ __forceinline__ float make_canonical(float t) {
  uint32 bits = magnitude_bits(t);
  if (bits == 0) return 0.0f;
  return bits > 0x7F800000u ? __uint_as_float(0x7FC00000u) : t;
}

__device__ __forceinline__ double make_canonical(double t) {
  uint64 bits = magnitude_bits(t);
  if (bits == 0) return 0.0;
  return bits > 0x7FF0000000000000ull ? __longlong_as_double(0x7FF8000000000000ll) : t;
}

template <class T> __device__ __forceinline__ T make_canonical(T t) { return t; }

// Conversions between float and double that keep subnormal floats: CuPy adds -ftz=true
// behind our options (cupy/cupy#9576), with which a cast would flush them. Integers are
// below 2^53.
__device__ __forceinline__ double widen(float t) {
#ifdef __CUDA_ARCH__
  double v;
  asm("cvt.f64.f32 %0, %1;" : "=d"(v) : "f"(t));
  return v;
#else
  return (double)t;
#endif
}

template <class T> __device__ __forceinline__ double widen(T t) { return (double)t; }

__device__ __forceinline__ void narrow(double v, float& t) {
#ifdef __CUDA_ARCH__
  asm("cvt.rn.f32.f64 %0, %1;" : "=f"(t) : "d"(v));
#else
  t = (float)v;
#endif
}

template <class T> __device__ __forceinline__ void narrow(double v, T& t) { t = (T)v; }

// The bits of the same magnitude as a double.
__device__ __forceinline__ uint64 widen_bits(uint32 bits) {
  return (uint64)__double_as_longlong(widen(__uint_as_float(bits)));
}

__device__ __forceinline__ uint64 widen_bits(uint64 bits) { return bits; }

__device__ __forceinline__ bool is_sentinel(int32 exponent) {
  return exponent >= NONFINITE_ROW / 2 || exponent <= ZERO_ROW / 2;
}

// 2^e for -1022 <= e <= 1023.
__device__ __forceinline__ double power_of_two(int32 e) {
  return __hiloint2double((e + 1023) << 20, 0);
}

// An element times 2^shifts[c], exactly; unchanged if shifts is null. Only entries of
// rows with a NaN or an Inf may overflow, and these rows are masked: see
// kernels/protocol.py. Only modules compiled with SHIFTED shift anything, so the others
// pay nothing.
__device__ __forceinline__ Element shift_element(Element element, const int32* shifts,
                                                 int64 c) {
#ifdef SHIFTED
  // Without shifts times 1: a branch would separate the loads of a loop.
  double factor = power_of_two(shifts == nullptr ? 0 : shifts[c]);
#pragma unroll
  for (int32 part = 0; part < PARTS; ++part) {
    narrow(__dmul_rn(widen(element.part[part]), factor), element.part[part]);
  }
#endif
  return element;
}

// A rows x k operand that reductions along k cut into strips. Each block of 32 x 8
// threads takes some rows, and `span` entries along k. Along: a warp reads one row.
// Across: a warp reads 32 rows at one k, for operands whose rows are neighbours in
// memory.
struct Operand {
  const REAL* x;
  int64 rows, k, row_stride, k_stride, span;
  int32 across;
  int64 stack_stride;
};

// The place in its stack of a matrix: its number, where no places are given. By no
// __ldg, which the compiler may move before a kernel's wait.
__device__ __forceinline__ uint32 find_place(const int32* places, uint32 matrix) {
  return places == nullptr ? matrix : (uint32)places[matrix];
}

// This block's matrix of a stack.
__device__ __forceinline__ Operand take_matrix(Operand own) {
  own.x += PARTS * (blockIdx.z * own.stack_stride);
  return own;
}

// What a thread reduces: every `step`-th entry of [first, last). In each row one thread
// `leads`.
struct Strip {
  int64 row, first, last;
  int32 step;
  bool leads;
};

__device__ __forceinline__ uint32 count_row_blocks(const Operand& own) {
  return (uint32)(own.across ? (own.rows + 31) / 32 : (own.rows + 7) / 8);
}

// Whether a block belongs to the operand; otherwise its number among the other blocks.
__device__ __forceinline__ bool claim_block(uint32& block, const Operand& own) {
  uint32 count = count_row_blocks(own) * (uint32)((own.k + own.span - 1) / own.span);
  if (block < count) return true;
  block -= count;
  return false;
}

__device__ __forceinline__ Strip locate_strip(const Operand& own, uint32 block) {
  Strip strip;
  uint32 row_blocks = count_row_blocks(own);
  int32 own_row = own.across ? threadIdx.x : threadIdx.y;
  int32 own_first = own.across ? threadIdx.y : threadIdx.x;
  int64 begin = block / row_blocks * own.span;
  strip.row = (int64)(block % row_blocks) * (own.across ? 32 : 8) + own_row;
  strip.first = begin + own_first;
  strip.last = begin + own.span < own.k ? begin + own.span : own.k;
  if (strip.row >= own.rows) strip.last = 0;
  strip.step = own.across ? 8 : 32;
  strip.leads = strip.first == 0 && strip.row < own.rows;
  return strip;
}

__device__ __forceinline__ Element load_element(const Operand& own, const Strip& strip,
                                                int64 c) {
  return load_element(own.x, strip.row * own.row_stride + c * own.k_stride);
}

// How the threads of a pass that writes K-major bytes lie on its rows x k output: four
// neighbours along k a thread, blocks of 256 on rows_of_block rows, the grid
// one-dimensional. Along: a warp covers 1 row x 32 groups. Across: 4 rows x 8 groups, or
// 2 x 16: whole 32-byte sectors both ways where rows are neighbours in memory.
struct Group {
  int64 row, first;
};

// A thread's row and group within its block; the rows that its warp covers, and how many
// warps apart the next one of the same rows is.
struct Place {
  uint32 row, group, down, bands;
};

__device__ __forceinline__ Place locate_in_block(int32 across, uint32 row_count) {
  uint32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  uint32 down = !across ? 1 : row_count < 4 ? row_count : 4, bands = row_count / down;
  return {lane % down + down * (warp % bands), lane / down + 32 / down * (warp / bands),
          down, bands};
}

__device__ __forceinline__ Group locate_group(int64 rows, int64 k_padded,
                                              int32 across, int32 rows_of_block) {
  uint32 row_count = rows_of_block, group_count = 256 / row_count;
  uint32 row_tiles = (uint32)((rows + row_count - 1) / row_count);
  uint32 group_tiles = (uint32)((k_padded / 4 + group_count - 1) / group_count);
  // Neighbouring blocks follow the direction that is contiguous in memory.
  uint32 minor = across ? row_tiles : group_tiles;
  uint32 major_index = blockIdx.x / minor, minor_index = blockIdx.x % minor;
  int64 row_tile = across ? minor_index : major_index;
  int64 group_tile = across ? major_index : minor_index;
  Place place = locate_in_block(across, row_count);
  return {row_tile * row_count + place.row,
          4 * (group_tile * group_count + place.group)};
}
