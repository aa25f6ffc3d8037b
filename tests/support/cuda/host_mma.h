// mma.cuh on the host. Copies of odd threads arrive at once, as all of Turing's do, and
// those of even ones when they are waited for: whatever is read too early or overwritten
// too early is seen.
#define LARGEST_SHARED 49152
alignas(128) static uint8 shared[LARGEST_SHARED];

struct Copy {
  uint32 target;
  const int8* source;
  int32 bytes;
};
#define LARGEST_GROUP 32
#define GROUPS_UNDER_WAY 8  // those of the last block too, which are empty
static Copy copies[LARGEST_BLOCK][GROUPS_UNDER_WAY][LARGEST_GROUP];
static int32 copied[LARGEST_BLOCK][GROUPS_UNDER_WAY];
static uint32 committed[LARGEST_BLOCK], arrived[LARGEST_BLOCK];

template <int32 BYTES> static uint32 shared_memory() {
  static_assert(BYTES <= LARGEST_SHARED, "more than a kernel may have");
  return 0;
}

static void arrive(const Copy& copy) {
  memset(shared + copy.target, 0, 16);
  memcpy(shared + copy.target, copy.source, copy.bytes);
}

static void copy_async(uint32 target, const int8* source, int32 bytes) {
  if (target % 16 || target >= LARGEST_SHARED) undefined_line = __LINE__;
  if (bytes && (unsigned long)source % 16) undefined_line = __LINE__;
  uint32 t = threadIdx.x, group = committed[t] % GROUPS_UNDER_WAY;
  Copy copy = {target, source, bytes};
#ifdef TURING
  return arrive(copy);
#endif
  if (t % 2) return arrive(copy);
  copies[t][group][copied[t][group]++] = copy;
}

static void commit_copies() {
  uint32 t = threadIdx.x;
  if (++committed[t] - arrived[t] >= GROUPS_UNDER_WAY) undefined_line = __LINE__;
  copied[t][committed[t] % GROUPS_UNDER_WAY] = 0;
}

template <int32 LATEST> static void wait_for_copies() {
  uint32 t = threadIdx.x;
  for (; committed[t] - arrived[t] > LATEST; ++arrived[t]) {
    uint32 group = arrived[t] % GROUPS_UNDER_WAY;
    for (int32 i = 0; i < copied[t][group]; ++i) arrive(copies[t][group][i]);
  }
}

// The registers of all lanes, as the PTX ISA lays them out for ldmatrix and, alike, for
// operands of mma.sync: a register has four bytes, from 4 t on, of a matrix's row g; g and
// t are a lane's number by 4 and modulo 4.
struct Matrices {
  int8 row[4][8][16];
};

// The word of a matrix that the running lane has.
static uint32 word_of(const Matrices& x, int32 i) {
  uint32 word;
  memcpy(&word, x.row[i][threadIdx.x >> 2 & 7] + 4 * (threadIdx.x & 3), 4);
  return word;
}

template <class Function> static Matrices map_words(Matrices x, Function function) {
  for (int32 i = 0; i < 128; ++i) {
    uint32 word;
    memcpy(&word, x.row[0][0] + 4 * i, 4);
    word = function(word);
    memcpy(x.row[0][0] + 4 * i, &word, 4);
  }
  return x;
}

template <class Function> static Matrices join_rows(Matrices x, Function function) {
  Matrices other = map_words(x, function);
  for (int32 i = 0; i < 4; i += 2) memcpy(x.row[i], other.row[i + 1], 128);
  return x;
}

static uint32 keep(uint32 x) { return x; }

struct Places {
  uint32 of_lane[32];
};

template <class Address> static Places find_places(Address address) {
  Places found;
  for (int32 lane = 0; lane < 32; ++lane) found.of_lane[lane] = address(lane);
  return found;
}

// Also checks that the rows of a matrix lie in different banks.
static Matrices load_matrices(const Places& places, uint32 flipped, uint32 tile) {
  Matrices x;
  for (int32 i = 0; i < 4; ++i) {
    uint32 banks = 0;
    for (int32 g = 0; g < 8; ++g) {
      uint32 row = (places.of_lane[8 * i + g] ^ flipped) + tile;
      if (row % 16 || row >= LARGEST_SHARED) undefined_line = __LINE__;
      memcpy(x.row[i][g], shared + row, 16);
      banks |= 1u << (row / 16 % 8);
    }
    if (banks != 255) undefined_line = __LINE__;
  }
  return x;
}

__attribute__((optimize("O3"))) static int32 dot(const int8* a, const int8* b) {
  int32 sum = 0;
  for (int32 k = 0; k < 16; ++k) sum += (LEFT)a[k] * (RIGHT)b[k];
  return sum;
}

// Of residues no sum may overflow.
static void add(int32& sum, int32 value) {
  bool beyond = __builtin_add_overflow(sum, value, &sum);
#ifndef SUM
  if (beyond) undefined_line = __LINE__;
#endif
}

// How often each thread has multiplied 16 x 8 sums.
extern "C" {
uint64 multiplied[LARGEST_BLOCK];
}

// m8n8k16: a lane has the sums of row g and of columns 2 t and 2 t + 1.
static void multiply_eighth(int32* d, const Matrices& x, int32 i, const Matrices& y,
                            int32 j) {
  int32 g = threadIdx.x >> 2 & 7, t = threadIdx.x & 3;
  for (int32 b = 0; b < 2; ++b) add(d[b], dot(x.row[i][g], y.row[j][2 * t + b]));
}

// m16n8k32: registers of X have row g, then row g + 8, then both 16 bytes further; those
// of Y column g, then 16 bytes further. A lane has the sums of rows g and g + 8.
static void multiply_whole(int32* d, const Matrices& x, const Matrices& y, int32 j) {
  int32 g = threadIdx.x >> 2 & 7, t = threadIdx.x & 3;
  ++multiplied[threadIdx.x];
  for (int32 i = 0; i < 4; ++i) {
    const int8 *row = x.row[i >> 1][g], *further = x.row[2 + (i >> 1)][g];
    int32 column = 2 * t + (i & 1);
    add(d[i], dot(row, y.row[j][column]) + dot(further, y.row[j + 1][column]));
  }
}
