// SPDX-License-Identifier: Apache-2.0
#include "acl/graph/side_by_side.h"

#include <utility>

#include "acl/graph/graph.h"
#include "acl/stream.h"

namespace flashacl::acl {

// Counts until its task has run or is dropped; then the others end, too.
class SideBySide::Part {
 public:
  explicit Part(std::shared_ptr<SideBySide> of) : of_(std::move(of)) {
    of_->left_.fetch_add(1);
  }
  ~Part() {
    if (!ran_) of_->Stop();
    of_->EndOne();
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  aclError Run(const std::function<aclError()>& part) {
    ran_ = true;
    return of_->Run(part);
  }

 private:
  const std::shared_ptr<SideBySide> of_;
  bool ran_ = false;
};

SideBySide::SideBySide(const Graph& root,
                       std::span<const std::shared_ptr<Stream>> streams,
                       std::function<void()> wake)
    : root_(root), streams_(streams), wake_(std::move(wake)) {}

aclError SideBySide::Start(Stream& on, std::function<aclError()> part) {
  auto counted = std::make_shared<Part>(shared_from_this());
  return on.Push([counted = std::move(counted),
                  part = std::move(part)] { return counted->Run(part); },
                 "aclmdlRIExecuteAsync", TaskKind::kGraph);
}

bool SideBySide::must_stop() const {
  return stopped_.load() || root_.aborted() || ThisStream().aborting();
}

void SideBySide::Stop() {
  stopped_.store(true);
  wake_();
  for (const std::shared_ptr<Stream>& one : streams_) one->EndWaits();
}

aclError SideBySide::Run(const std::function<aclError()>& part) {
  const aclError code =
      GuardRuntime([&] { return must_stop() ? ACL_SUCCESS : part(); });
  if (code != ACL_SUCCESS) {
    Failure failure;
    TakeFailure(code, &failure);
    std::lock_guard lock(mutex_);
    if (code_ == ACL_SUCCESS) {
      code_ = code;
      device_fault_ = ThisStream().TakeDeviceFault();
      *failure_ = std::move(failure);
    }
  }
  if (code != ACL_SUCCESS || must_stop()) Stop();
  return ACL_SUCCESS;  // the replay fails, not the stream of the part
}

void SideBySide::EndOne() {
  if (left_.fetch_sub(1) == 1) ended_.Open();
}

aclError SideBySide::Finish(Stream& stream, aclError started) {
  if (started != ACL_SUCCESS) Stop();
  EndOne();
  if (!stream.WaitInTask(ended_, std::nullopt)) {
    Stop();
    ended_.Wait(std::nullopt);
  }
  for (const std::shared_ptr<Stream>& one : streams_) one->ResumeWaits();
  if (started != ACL_SUCCESS) return started;
  if (code_ == ACL_SUCCESS) return ACL_SUCCESS;
  if (device_fault_) stream.MarkDeviceFault();
  return Fail(failure_);
}

}  // namespace flashacl::acl
