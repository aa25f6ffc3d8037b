// mma.cuh on the host.
template <int32 BYTES> static uint32 shared_memory() {
  return BYTES > LARGEST_OWN ? 0 : OWN_SHARED;
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
      if (row % 16 || row >= sizeof dynamic_shared) undefined_line = __LINE__;
      memcpy(x.row[i][g], dynamic_shared + row, 16);
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
