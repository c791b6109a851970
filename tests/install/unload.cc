// SPDX-License-Identifier: Apache-2.0
// A program that loads the library by hand, unloads it in the state that its
// argument names, and ends as the second one says. Exit code 0.
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"

#define CALL(library, name) ((decltype(&name))dlsym(library, #name))

static char memory[1 << 20];

static void* FailOnThread(void* library) {
  CALL(library, aclrtSetDevice)(-1);  // leaves a message of this thread
  return nullptr;
}

int main(int, char** arguments) {
  const char* const state = arguments[1];
  void* const library = dlopen("libascendcl.so", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return 2;
  if (strcmp(state, "loaded") != 0) {
    aclrtStream stream = nullptr;
    if (CALL(library, aclInit)(nullptr) != 0) return 3;
    if (CALL(library, aclrtSetDevice)(0) != 0) return 4;
    if (CALL(library, aclrtCreateStream)(&stream) != 0) return 5;
    pthread_t thread;
    pthread_create(&thread, nullptr, FailOnThread, library);
    for (int n = 0; n < 2000; ++n) {
      if (CALL(library, aclrtMemsetAsync)(memory, sizeof memory, n,
                                          sizeof memory, stream) != 0) {
        return 6;
      }
    }
    if (strcmp(state, "finalized") == 0) {
      if (CALL(library, aclrtSynchronizeStream)(stream) != 0) return 7;
      if (CALL(library, aclrtDestroyStream)(stream) != 0) return 8;
      if (CALL(library, aclrtResetDevice)(0) != 0) return 9;
      if (CALL(library, aclFinalize)() != 0) return 10;
    }
    dlclose(library);
    pthread_join(thread, nullptr);
  } else {
    dlclose(library);
  }
  if (strcmp(arguments[2], "at once") == 0) _exit(0);
  exit(0);
}
