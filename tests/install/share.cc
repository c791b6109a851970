// SPDX-License-Identifier: Apache-2.0
// IPC between two processes, as programs written for CANN do it: `export`
// shares memory, an event and a notify by a file of names; `import` waits for
// the event, reads the memory, changes it, and records the notify.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "acl/acl.h"

namespace {

constexpr size_t kCount = 4;
constexpr size_t kBytes = size_t{2} << 20;

void Check(aclError error, const char* call) {
  if (error == ACL_SUCCESS) return;
  const char* const message = aclGetRecentErrMsg();
  std::fprintf(stderr, "%s: %d %s\n", call, error,
               message == nullptr ? "" : message);
  std::exit(1);
}

#define CHECK(call) Check(call, #call)

// Files have names; a handle is one too, as bytes.
struct Names {
  std::string memory, event, notify;
};

void Write(const std::string& path, const Names& names) {
  {
    std::ofstream file(path + ".part");
    file << names.memory << '\n' << names.event << '\n' << names.notify << '\n';
  }
  std::rename((path + ".part").c_str(), path.c_str());
}

Names Read(const std::string& path) {
  for (int n = 0; n < 6000; ++n) {
    std::ifstream file(path);
    Names names;
    if (file >> names.memory >> names.event >> names.notify) return names;
    usleep(10000);
  }
  std::fprintf(stderr, "no names came\n");
  std::exit(1);
}

void Print(const char* who, const void* memory) {
  float values[kCount];
  CHECK(aclrtMemcpy(values, sizeof(values), memory, sizeof(values),
                    ACL_MEMCPY_DEVICE_TO_HOST));
  std::printf("%s:", who);
  for (const float value : values) std::printf(" %g", value);
  std::printf("\n");
}

void Export(const std::string& path, int32_t importer, aclrtStream stream) {
  void* memory = nullptr;
  void* host = nullptr;
  CHECK(aclrtMalloc(&memory, kBytes, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMallocHost(&host, kBytes));
  char key[65];
  CHECK(aclrtIpcMemGetExportKey(memory, kBytes, key, sizeof(key),
                                ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT));
  CHECK(aclrtIpcMemSetImportPid(key, &importer, 1));
  aclrtNotify notify = nullptr;
  char notify_key[65];
  CHECK(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
  CHECK(aclrtNotifyGetExportKey(notify, notify_key, sizeof(notify_key),
                                ACL_RT_NOTIFY_EXPORT_FLAG_DEFAULT));
  CHECK(aclrtNotifySetImportPid(notify, &importer, 1));
  aclrtEvent event = nullptr;
  aclrtIpcEventHandle handle;
  CHECK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
  CHECK(aclrtIpcGetEventHandle(event, &handle));

  auto* const values = static_cast<float*>(host);
  for (size_t n = 0; n < kCount; ++n) values[n] = static_cast<float>(n + 1);
  CHECK(aclrtMemcpyAsync(memory, kBytes, host, kCount * sizeof(float),
                         ACL_MEMCPY_HOST_TO_DEVICE, stream));
  CHECK(aclrtRecordEvent(event, stream));
  Write(path, {key, handle.reserved, notify_key});
  CHECK(aclrtWaitAndResetNotify(notify, stream, 0));
  CHECK(aclrtSynchronizeStream(stream));
  Print("exported", memory);

  CHECK(aclrtDestroyEvent(event));
  CHECK(aclrtDestroyNotify(notify));
  CHECK(aclrtIpcMemClose(key));
  CHECK(aclrtFreeHost(host));
  CHECK(aclrtFree(memory));
}

void Import(const std::string& path, aclrtStream stream) {
  const Names names = Read(path);
  void* memory = nullptr;
  CHECK(aclrtIpcMemImportByKey(&memory, names.memory.c_str(),
                               ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT));
  aclrtNotify notify = nullptr;
  CHECK(aclrtNotifyImportByKey(&notify, names.notify.c_str(),
                               ACL_RT_NOTIFY_IMPORT_FLAG_DEFAULT));
  aclrtIpcEventHandle handle = {};
  std::strncpy(handle.reserved, names.event.c_str(),
               sizeof(handle.reserved) - 1);
  aclrtEvent event = nullptr;
  CHECK(aclrtIpcOpenEventHandle(handle, &event));

  CHECK(aclrtStreamWaitEvent(stream, event));
  CHECK(aclrtSynchronizeStream(stream));
  Print("imported", memory);
  std::vector<float> values;
  for (size_t n = 0; n < kCount; ++n) {
    values.push_back(static_cast<float>(n + 11));
  }
  CHECK(aclrtMemcpyAsync(memory, kBytes, values.data(),
                         values.size() * sizeof(float),
                         ACL_MEMCPY_HOST_TO_DEVICE, stream));
  CHECK(aclrtRecordNotify(notify, stream));
  CHECK(aclrtSynchronizeStream(stream));

  CHECK(aclrtDestroyEvent(event));
  CHECK(aclrtDestroyNotify(notify));
  CHECK(aclrtIpcMemClose(names.memory.c_str()));
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) return 2;
  CHECK(aclInit(nullptr));
  CHECK(aclrtSetDevice(0));
  aclrtStream stream = nullptr;
  CHECK(aclrtCreateStream(&stream));
  if (std::string(words[1]) == "export" && count == 4) {
    Export(words[2], std::atoi(words[3]), stream);
  } else {
    Import(words[2], stream);
  }
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  return 0;
}
