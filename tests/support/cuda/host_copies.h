// copies.cuh on the host. Copies of odd threads arrive at once, as all of Turing's do, and
// those of even ones when they are waited for: whatever is read too early or overwritten
// too early is seen.
struct Copy {
  uint32 target, size;
  const void* source;
};
#define LARGEST_GROUP 256
#define GROUPS_UNDER_WAY 8  // those of the last block too, which are empty
static Copy copies[LARGEST_BLOCK][GROUPS_UNDER_WAY][LARGEST_GROUP];
static int32 copied[LARGEST_BLOCK][GROUPS_UNDER_WAY];
static uint32 committed[LARGEST_BLOCK], arrived[LARGEST_BLOCK];

// Bytes that have been copied.
extern "C" {
uint64 copied_bytes;
}

static void arrive(const Copy& copy) {
  if (copy.source == nullptr) memset(dynamic_shared + copy.target, 0, copy.size);
  else memcpy(dynamic_shared + copy.target, copy.source, copy.size);
}

template <class T> static void copy_async(uint32 target, const T* source, bool wanted) {
  const uint32 size = sizeof(T);
  if (target % size || target + size > sizeof dynamic_shared) undefined_line = __LINE__;
  if (wanted && (unsigned long)source % size) undefined_line = __LINE__;
  uint32 t = threadIdx.x, group = committed[t] % GROUPS_UNDER_WAY;
  Copy copy = {target, size, wanted ? source : nullptr};
  copied_bytes += wanted ? size : 0;
#ifdef TURING
  return arrive(copy);
#endif
  if (t % 2) return arrive(copy);
  if (copied[t][group] == LARGEST_GROUP) undefined_line = __LINE__;
  else copies[t][group][copied[t][group]++] = copy;
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
