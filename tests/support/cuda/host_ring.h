// ring.cuh on the host: every thread of a warpgroup adds up its own sums, read where the
// copies would read them.
#define CLUSTER 2
#define TILE_K 128
#define ACCUMULATORS 128
#define LARGEST_STEPS (65536 / TILE_K)

struct alignas(64) TensorMap {
  uint64 word[16];  // address, rows, bytes of a row and their distance: HostDevice.map
};

struct Tiles {
  int32 left, right, aside, begin;
};

struct Ring {
  uint32 rank;
  int32 role;
};

static Ring open_ring() {
  return Ring{blockIdx.x % CLUSTER, (int32)(threadIdx.x >> 7)};
}

static void close_ring() {}
static void give_registers() {}
static void take_registers() {}
static void copy_steps(Ring&, const TensorMap&, const TensorMap&, Tiles, int32) {}

// The row whose bytes a copy puts at a slot, of those from 64 `group` on.
static uint64 row_at(int32 group, int32 slot) {
#ifdef SUM  // samples are mapped as they lie
  return (uint64)group + slot;
#else
  return 64ull * (group + (slot >> 6)) + row_of_slot(slot & 63);
#endif
}

__attribute__((no_sanitize("undefined"), optimize("O3"))) static int32 dot(
    const TensorMap& x, uint64 row, const TensorMap& y, uint64 column, uint64 first,
    uint64 last) {
  if (row >= x.word[1] || column >= y.word[1]) return 0;
  const LEFT* a = (const LEFT*)(x.word[0] + row * x.word[3]);
  const RIGHT* b = (const RIGHT*)(y.word[0] + column * y.word[3]);
  uint32 sum = 0;  // of samples it wraps
  for (uint64 k = first; k < last && k < x.word[2]; ++k) sum += a[k] * b[k];
  return (int32)sum;
}

// Of residues no sum may overflow.
static void add(int32& sum, int32 value) {
  bool beyond = __builtin_add_overflow(sum, value, &sum);
#ifndef SUM
  if (beyond) undefined_line = __LINE__;
#endif
}

template <class Reduce>
static void multiply_steps(Ring& ring, int32 (&d)[ACCUMULATORS], const TensorMap& x,
                           const TensorMap& y, const TensorMap& z, Tiles tiles,
                           int32 steps, Reduce reduce) {
  int32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
  for (int32 i = 0; i < ACCUMULATORS; ++i) {
    int32 slot = 64 * (ring.role - 1) + 16 * warp + 8 * (i >> 1 & 1) + (lane >> 2);
    int32 column = 8 * (i >> 2) + 2 * (lane & 3) + (i & 1), further = column >> 7;
    uint64 row = row_at(tiles.left, slot);
    uint64 other = row_at(tiles.right + tiles.aside * further, column & 127);
    int32 sum = 0;
    for (int32 first = 0; first < steps; first += LARGEST_STEPS) {
      if (first > 0) sum = reduce(sum);
      int32 own = tiles.begin + first, end = tiles.begin + steps;
      if (own + LARGEST_STEPS < end) end = own + LARGEST_STEPS;
      add(sum, dot(x, row, further ? z : y, other, (uint64)own * TILE_K,
                   (uint64)end * TILE_K));
    }
    d[i] = sum;
  }
}
