// mma.cuh on the host. Copies of odd threads arrive at once and those of even ones when
// they are waited for: whatever is read too early or overwritten too early is seen.
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

static uint32 shared_memory() { return 0; }

static void arrive(const Copy& copy) {
  memset(shared + copy.target, 0, 16);
  memcpy(shared + copy.target, copy.source, copy.bytes);
}

static void copy_async(uint32 target, const int8* source, int32 bytes) {
  if (target % 16 || target >= LARGEST_SHARED) undefined_line = __LINE__;
  if (bytes && (unsigned long)source % 16) undefined_line = __LINE__;
  uint32 t = threadIdx.x, group = committed[t] % GROUPS_UNDER_WAY;
  Copy copy = {target, source, bytes};
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

// Also checks that the rows of a matrix lie in different banks.
template <class Address>
static void load_matrices(uint32 (&word)[4], Address address) {
  int32 lane = threadIdx.x & 31;
  for (int32 i = 0; i < 4; ++i) {
    uint32 row = address(8 * i + (lane >> 2));
    memcpy(&word[i], shared + row + 4 * (lane & 3), 4);
    uint32 banks = 0;
    for (int32 l = 0; l < 8; ++l) banks |= 1u << (address(8 * i + l) / 16 % 8);
    if (row % 16 || row >= LARGEST_SHARED || banks != 255) undefined_line = __LINE__;
  }
}

// The fragments of every lane, as the PTX ISA lays them out for m16n8k32 of 8-bit
// integers: a register of X has the bytes 4 t, ... of row g, then of row g + 8, then both
// 16 bytes further; one of Y the bytes 4 t, ... of column g, then 16 bytes further; g and
// t are a lane's number by 4 and modulo 4. A lane has the sums of rows g and g + 8 and of
// columns 2 t and 2 t + 1.
static uint32 fragments[LARGEST_BLOCK][2][4][4];

__attribute__((optimize("O3"))) static int32 dot(const int8* a, const int8* b) {
  int32 sum = 0;
  for (int32 k = 0; k < 32; ++k) sum += a[k] * b[k];
  return sum;
}

__attribute__((no_sanitize("undefined"), optimize("O3"))) static void multiply_part(
    int32 (&d)[128], const uint32 (&x)[4][4], const uint32 (&y)[4][4]) {
  int32 lane = threadIdx.x & 31, first = threadIdx.x - lane, g = lane >> 2, t = lane & 3;
  memcpy(fragments[threadIdx.x][0], x, sizeof x);
  memcpy(fragments[threadIdx.x][1], y, sizeof y);
  __syncwarp();
  alignas(32) int8 rows[8][32], columns[16][32];
  for (int32 part = 0; part < 8; ++part) {
    for (int32 i = 0; i < 4; ++i) {
      for (int32 half = 0; half < 2; ++half) {
        uint32 word = fragments[first + 4 * g + (part & 3)][0][i][2 * (part >> 2) + half];
        memcpy(rows[2 * i + half] + 4 * part, &word, 4);
      }
    }
    for (int32 j = 0; j < 8; ++j) {
      for (int32 b = 0; b < 2; ++b) {
        int32 other = first + 4 * (2 * t + b) + (part & 3);
        uint32 word = fragments[other][1][j >> 1][2 * (j & 1) + (part >> 2)];
        memcpy(columns[2 * j + b] + 4 * part, &word, 4);
      }
    }
  }
  __syncwarp();
  for (int32 r = 0; r < 8; ++r) {
    for (int32 c = 0; c < 16; ++c) {
      int32 place = 32 * (r >> 1) + 4 * (c >> 1) + 2 * (r & 1) + (c & 1);
      int32 sum = dot(rows[r], columns[c]);
      if (__builtin_add_overflow(d[place], sum, &d[place])) undefined_line = __LINE__;
    }
  }
}
