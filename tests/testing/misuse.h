// SPDX-License-Identifier: Apache-2.0
// Tables of what programs do wrong. Each row makes one wrong call, and says
// which status it answers and which words its message has: the argument, what
// was given, what was expected. After each of them the next call works.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_add.h"
#include "base/str.h"
#include "tests/testing/runtime.h"

namespace flashacl::testing {

// What a row may use, made for it and released after it.
class Scene {
 public:
  static constexpr size_t kBytes = 256;
  static constexpr int64_t kFloats = 64;

  Scene() {
    EXPECT_TRUE(Succeeds(aclrtCreateStream(&stream)));
    for (void** at : {&a, &b, &out}) {
      EXPECT_TRUE(
          Succeeds(aclrtMalloc(at, kBytes, ACL_MEM_MALLOC_NORMAL_ONLY)));
      EXPECT_TRUE(Succeeds(aclrtMemset(*at, kBytes, 0, kBytes)));
    }
  }
  // A row may have destroyed any of them, as its mistake.
  ~Scene() {
    aclrtSynchronizeDevice();
    for (void* at : {a, b, out}) aclrtFree(at);
    if (stream != nullptr) aclrtDestroyStream(stream);
    Message();
  }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  // Words that are not known before the call: addresses and numbers.
  template <typename... Args>
  void Says(fmt::format_string<Args...> format, Args&&... args) {
    words.push_back(Str(format, std::forward<Args>(args)...));
  }

  // Returns what the wrong call answered, and keeps its message, where other
  // calls come after it.
  int Keep(int status) {
    message = Message();
    return status;
  }

  aclrtStream stream = nullptr;
  void* a = nullptr;
  void* b = nullptr;
  void* out = nullptr;
  std::vector<std::string> words;
  std::string message;
};

// What a function answers that makes an object, and makes none.
inline constexpr int kNoObject = -1;

struct Misuse {
  const char* call;                 // as somebody would tell of it
  std::function<int(Scene&)> make;  // what the wrong call answers
  int status;                       // 0: it is none
  std::vector<std::string> words;   // of its message, besides the scene's
};

// A tensor of floats at `data`.
inline aclTensor* Floats(void* data, std::vector<int64_t> dims) {
  return aclCreateTensor(dims.data(), dims.size(), ACL_FLOAT, nullptr, 0,
                         ACL_FORMAT_ND, dims.data(), dims.size(), data);
}

// Both phases of out = a + b on the scene's memory and `stream`.
inline int AddOn(const Scene& scene, aclrtStream stream) {
  aclTensor* const tensors[] = {Floats(scene.a, {Scene::kFloats}),
                                Floats(scene.b, {Scene::kFloats}),
                                Floats(scene.out, {Scene::kFloats})};
  float one = 1;
  aclScalar* const alpha = aclCreateScalar(&one, ACL_FLOAT);
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  int status = aclnnAddGetWorkspaceSize(tensors[0], tensors[1], alpha,
                                        tensors[2], &size, &executor);
  if (status == 0) status = aclnnAdd(nullptr, size, executor, stream);
  for (aclTensor* tensor : tensors) aclDestroyTensor(tensor);
  aclDestroyScalar(alpha);
  return status;
}

// Memory, copies, a stream and an operator, with the right answer.
inline void NextCallWorks() {
  Scene scene;
  const std::vector<float> ones(Scene::kFloats, 1);
  for (void* at : {scene.a, scene.b}) {
    EXPECT_TRUE(
        Succeeds(aclrtMemcpy(at, Scene::kBytes, ones.data(), Scene::kBytes,
                             ACL_MEMCPY_HOST_TO_DEVICE)));
  }
  EXPECT_TRUE(Succeeds(AddOn(scene, scene.stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(scene.stream)));
  std::vector<float> sums(Scene::kFloats);
  EXPECT_TRUE(Succeeds(aclrtMemcpy(sums.data(), Scene::kBytes, scene.out,
                                   Scene::kBytes, ACL_MEMCPY_DEVICE_TO_HOST)));
  EXPECT_EQ(sums, std::vector<float>(Scene::kFloats, 2));
}

inline void ExpectRefusal(const Misuse& row) {
  SCOPED_TRACE(row.call);
  {
    Scene scene;
    Message();
    const int status = row.make(scene);
    const std::string message = scene.message + Message();
    EXPECT_EQ(status, row.status) << message;
    std::vector<std::string> words = row.words;
    words.insert(words.end(), scene.words.begin(), scene.words.end());
    EXPECT_EQ(words.empty(), row.status == 0) << "a message says something";
    for (const std::string& word : words) {
      EXPECT_NE(message.find(word), std::string::npos)
          << "\"" << word << "\" is not in: " << message;
    }
  }
  NextCallWorks();
}

inline void ExpectRefusals(const std::vector<Misuse>& rows) {
  for (const Misuse& row : rows) ExpectRefusal(row);
}

}  // namespace flashacl::testing
