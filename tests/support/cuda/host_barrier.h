// Threads of a block that wait for one another: each on a stack of its own.
#include <ucontext.h>

#define LARGEST_BLOCK 256
static ucontext_t block_context, thread_contexts[LARGEST_BLOCK];
static char stacks[LARGEST_BLOCK][1 << 16];
static bool ended[LARGEST_BLOCK];
static unsigned int running;
static void (*thread_body)();

static void __syncthreads() {
  swapcontext(&thread_contexts[running], &block_context);
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
}

// Every thread as far as the next barrier, in turns. One that ends where others wait is
// undefined behaviour.
static void run_together(void (*thread)()) {
  unsigned int count = blockDim.x * blockDim.y * blockDim.z, left = count;
  thread_body = thread;
  for (unsigned int i = 0; i < count; ++i) {
    ended[i] = false;
    getcontext(&thread_contexts[i]);
    thread_contexts[i].uc_stack.ss_sp = stacks[i];
    thread_contexts[i].uc_stack.ss_size = sizeof stacks[i];
    thread_contexts[i].uc_link = &block_context;
    makecontext(&thread_contexts[i], run_thread, 0);
  }
  while (left > 0) {
    if (left < count) undefined_line = __LINE__;
    said_before = said_now;
    said_now = false;
    for (unsigned int i = 0; i < count; ++i) {
      if (ended[i]) continue;
      running = i;
      threadIdx = {i % blockDim.x, i / blockDim.x % blockDim.y,
                   i / blockDim.x / blockDim.y};
      swapcontext(&block_context, &thread_contexts[i]);
      left -= ended[i];
    }
  }
}
