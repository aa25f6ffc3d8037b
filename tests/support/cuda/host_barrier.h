// Threads of a block that wait for one another: each on a stack of its own.
#undef _FORTIFY_SOURCE  // which refuses to go to other stacks
#include <setjmp.h>
#include <ucontext.h>

#define LARGEST_BLOCK 1024
static ucontext_t beginnings[LARGEST_BLOCK];
// Where the block, and threads, go on: with no call of the system, unlike contexts.
static jmp_buf block_place, thread_places[LARGEST_BLOCK];
static char stacks[LARGEST_BLOCK][1 << 16];
static bool begun[LARGEST_BLOCK], ended[LARGEST_BLOCK];
static unsigned int running;
static void (*thread_body)();

static void __syncthreads() {
  if (_setjmp(thread_places[running]) == 0) _longjmp(block_place, 1);
}

// Whether the running thread waits for its warp alone.
static bool within_warp;

static void __syncwarp() {
  within_warp = true;
  __syncthreads();
}

// What all lanes of a warp give, by a function of it. All of them take part.
template <class T, class Take> static auto exchange(T value, Take take) {
  static T given[LARGEST_BLOCK];
  given[running] = value;
  __syncwarp();
  auto found = take(given + running / 32 * 32);
  __syncwarp();
  return found;
}

template <class T> static T __shfl_xor_sync(unsigned int, T value, int lanes) {
  return exchange(value, [=](const T* warp) { return warp[running % 32 ^ lanes]; });
}

template <class T> static T __shfl_sync(unsigned int, T value, int lane) {
  return exchange(value, [=](const T* warp) { return warp[lane]; });
}

static unsigned int __ballot_sync(unsigned int, int predicate) {
  return exchange(predicate != 0, [](const bool* warp) {
    unsigned int found = 0;
    for (int i = 0; i < 32; ++i) found |= (unsigned int)warp[i] << i;
    return found;
  });
}

// Whether any thread said so before it waited.
static bool said_before, said_now;

static int __syncthreads_or(int predicate) {
  said_now |= predicate != 0;
  __syncthreads();
  return said_before;
}

static void run_thread() {
  thread_body();
  ended[running] = true;
  _longjmp(block_place, 1);
}

__attribute__((noinline)) static void resume(unsigned int i) {
  if (_setjmp(block_place) != 0) return;
  if (begun[i]) _longjmp(thread_places[i], 1);
  begun[i] = true;
  setcontext(&beginnings[i]);
}

// The threads of a warp as far as they wait: whether for one another. Some for their
// warp and others not is undefined behaviour.
static bool run_warp(unsigned int first, unsigned int end, unsigned int& left) {
  unsigned int alive = 0, within = 0;
  for (unsigned int i = first; i < end; ++i) {
    if (ended[i]) continue;
    running = i;
    threadIdx = {i % blockDim.x, i / blockDim.x % blockDim.y,
                 i / blockDim.x / blockDim.y};
    within_warp = false;
    resume(i);
    alive += 1, within += within_warp;
    left -= ended[i];
  }
  if (within != 0 && within != alive) undefined_line = __LINE__;
  return within != 0;
}

// Every thread as far as the next barrier, in turns. One that ends where others wait is
// undefined behaviour.
static void run_together(void (*thread)()) {
  unsigned int count = blockDim.x * blockDim.y * blockDim.z, left = count;
  thread_body = thread;
  for (unsigned int i = 0; i < count; ++i) {
    begun[i] = ended[i] = false;
    getcontext(&beginnings[i]);
    beginnings[i].uc_stack.ss_sp = stacks[i];
    beginnings[i].uc_stack.ss_size = sizeof stacks[i];
    makecontext(&beginnings[i], run_thread, 0);
  }
  while (left > 0) {
    if (left < count) undefined_line = __LINE__;
    said_before = said_now;
    said_now = false;
    for (unsigned int first = 0; first < count; first += 32) {
      while (run_warp(first, first + 32 < count ? first + 32 : count, left)) {
      }
    }
  }
}
