// Copies to shared memory that go on while threads work, but on Turing. On the host: see
// host_copies.h.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define TURING
#endif

// Copy a T of 16, 8 or 4 bytes, or write zeros if it is not wanted.
template <class T>
__device__ __forceinline__ void copy_async(uint32 target, const T* source, bool wanted) {
#ifdef TURING
  T own = {};
  if (wanted) own = *source;
  *static_cast<T*>(__cvta_shared_to_generic(target)) = own;
#else
  int32 bytes = wanted ? sizeof(T) : 0;
  if (sizeof(T) == 16) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(target),
                 "l"(source), "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], %3, %2;" ::"r"(target),
                 "l"(source), "r"(bytes), "n"(sizeof(T))
                 : "memory");
  }
#endif
}

// What this thread has copied since the last time is a group.
__device__ __forceinline__ void commit_copies() {
#ifndef TURING
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// All of this thread's groups but the last LATEST have arrived.
template <int32 LATEST> __device__ __forceinline__ void wait_for_copies() {
#ifndef TURING
  asm volatile("cp.async.wait_group %0;" ::"n"(LATEST) : "memory");
#endif
}
