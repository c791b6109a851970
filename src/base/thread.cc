// SPDX-License-Identifier: Apache-2.0
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace flashacl {

int StartDetached(void* (*start)(void*), void* argument) {
  pthread_attr_t detached;
  if (const int error = pthread_attr_init(&detached); error != 0) return error;
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  sigset_t all, before;
  sigfillset(&all);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) {
    sigdelset(&all, own);
  }
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const int error = pthread_create(&thread, &detached, start, argument);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&detached);
  return error;
}

int AvailableProcessors() noexcept {
  // More than any machine has; the stack, as spinning asks where nothing may
  // throw.
  std::array<cpu_set_t, 8> allowed;
  if (sched_getaffinity(0, sizeof allowed, allowed.data()) == 0) {
    return std::max(1, CPU_COUNT_S(sizeof allowed, allowed.data()));
  }
  return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace flashacl
