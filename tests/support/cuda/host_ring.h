// ring.cuh on the host: every thread of a warpgroup adds up its own sums, read where the
// copies would read them.
#define CLUSTER 2
#define TILE_K 128
#define ACCUMULATORS 128
#define LARGEST_STEPS (65536 / TILE_K)

struct alignas(64) TensorMap {
  uint64 word[16];  // address, rows and bytes of a row; see HostDevice.map_planes
};

struct Tiles {
  int32 left, right;
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

typedef int8 s8;
typedef uint8 u8;

// The row whose bytes a copy puts at a slot, of those from 64 `group` on.
static uint64 row_at(int32 group, int32 slot) {
  int32 b = slot & 1, t = slot >> 1 & 3, j = slot >> 3 & 7;
  return 64ull * (group + (slot >> 6)) + 16 * t + 2 * j + b;
}

__attribute__((no_sanitize("undefined"), optimize("O3"))) static int32 dot(
    const TensorMap& x, uint64 row, const TensorMap& y, uint64 column, uint64 first,
    uint64 last) {
  if (row >= x.word[1] || column >= y.word[1]) return 0;
  const LEFT* a = (const LEFT*)x.word[0] + row * x.word[2];
  const RIGHT* b = (const RIGHT*)y.word[0] + column * y.word[2];
  int32 sum = 0;
  for (uint64 k = first; k < last && k < x.word[2]; ++k) sum += a[k] * b[k];
  return sum;
}

static void multiply_steps(Ring& ring, int32 (&d)[ACCUMULATORS], const TensorMap& x,
                           const TensorMap& y, Tiles tiles, int32 begin, int32 steps,
                           uint4 entry) {
  int32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
  for (int32 i = 0; i < ACCUMULATORS; ++i) {
    int32 slot = 64 * (ring.role - 1) + 16 * warp + 8 * (i >> 1 & 1) + (lane >> 2);
    int32 column = 8 * (i >> 2) + 2 * (lane & 3) + (i & 1);
    d[i] = 0;
    for (int32 first = 0; first < steps; first += LARGEST_STEPS) {
      if (first > 0) d[i] = reduce_one(d[i], entry);
      int32 own = begin + first, end = begin + steps;
      if (own + LARGEST_STEPS < end) end = own + LARGEST_STEPS;
      d[i] += dot(x, row_at(tiles.left, slot), y, row_at(tiles.right, column),
                  (uint64)own * TILE_K, (uint64)end * TILE_K);
    }
  }
}
