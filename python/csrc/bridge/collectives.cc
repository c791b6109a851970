// SPDX-License-Identifier: Apache-2.0
#include "bridge/collectives.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <mutex>
#include <utility>

#include "bridge/faces.h"
#include "bridge/queue.h"

namespace flashacl::bridge {
namespace {

using Tensors = std::vector<at::Tensor>;
using Lists = std::vector<Tensors>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// Work on faces, as work on the npu tensors they are of.
class FacesWork : public c10d::Work {
 public:
  // Afterwards faces are divided by `divisor`: means, which Gloo lacks.
  FacesWork(WorkPtr work, Tensors npu, Tensors faces, int divisor)
      : work_(std::move(work)),
        npu_(std::move(npu)),
        faces_(std::move(faces)),
        divisor_(divisor) {}

  bool isCompleted() override { return work_->isCompleted(); }
  bool isSuccess() const override { return work_->isSuccess(); }
  std::exception_ptr exception() const override { return work_->exception(); }
  int sourceRank() const override { return work_->sourceRank(); }
  Tensors result() override { return npu_; }
  void synchronize() override { wait(kNoTimeout); }
  void abort() override { work_->abort(); }

  bool wait(std::chrono::milliseconds timeout) override {
    work_->wait(timeout);
    Finish();
    return true;
  }

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    std::vector<c10::Device> devices;
    if (!npu_.empty()) devices.push_back(npu_.front().device());
    auto future = c10::make_intrusive<c10::ivalue::Future>(
        c10::ListType::create(c10::TensorType::get()), devices);
    auto self = c10::intrusive_ptr<FacesWork>::reclaim_copy(this);
    work_->getFuture()->addCallback([self, future](c10::ivalue::Future& done) {
      if (done.hasError()) {
        future->setError(done.exception_ptr());
        return;
      }
      self->Finish();
      future->markCompleted(c10::IValue(self->npu_));
    });
    return future;
  }

 private:
  void Finish() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (divisor_ > 1) {
      for (at::Tensor& face : faces_) face.div_(divisor_);
    }
    divisor_ = 1;
  }

  WorkPtr work_;
  Tensors npu_;
  Tensors faces_;
  std::mutex mutex_;
  int divisor_;
};

class Collectives : public c10d::Backend {
 public:
  explicit Collectives(c10::intrusive_ptr<c10d::Backend> cpu)
      : Backend(cpu->getRank(), cpu->getSize()), cpu_(std::move(cpu)) {}

  const std::string getBackendName() const override { return "hccl"; }
  void setSequenceNumberForGroup() override {
    cpu_->setSequenceNumberForGroup();
  }
  uint64_t getSequenceNumberForGroup() override {
    return cpu_->getSequenceNumberForGroup();
  }

  WorkPtr broadcast(Tensors& tensors,
                    const c10d::BroadcastOptions& options) override {
    Tensors faces = Ready(tensors);
    return Done(cpu_->broadcast(faces, options), tensors, faces);
  }

  WorkPtr allreduce(Tensors& tensors,
                    const c10d::AllreduceOptions& options) override {
    Tensors faces = Ready(tensors);
    auto [changed, divisor] = WithoutMean(options);
    return Done(cpu_->allreduce(faces, changed), tensors, faces, divisor);
  }

  WorkPtr allreduce_coalesced(
      Tensors& tensors,
      const c10d::AllreduceCoalescedOptions& options) override {
    Tensors faces = Ready(tensors);
    auto [changed, divisor] = WithoutMean(options);
    return Done(cpu_->allreduce_coalesced(faces, changed), tensors, faces,
                divisor);
  }

  WorkPtr reduce(Tensors& tensors,
                 const c10d::ReduceOptions& options) override {
    Tensors faces = Ready(tensors);
    auto [changed, divisor] = WithoutMean(options);
    return Done(cpu_->reduce(faces, changed), tensors, faces, divisor);
  }

  WorkPtr allgather(Lists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override {
    Tensors from = Ready(inputs);
    Lists to = Ready(outputs);
    return Done(cpu_->allgather(to, from, options), Flat(outputs), Flat(to));
  }

  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override {
    at::Tensor to = Ready(output);
    at::Tensor from = Ready(input);
    return Done(cpu_->_allgather_base(to, from, options), {output}, {to});
  }

  WorkPtr allgather_into_tensor_coalesced(
      Tensors& outputs, Tensors& inputs,
      const c10d::AllgatherOptions& options) override {
    Tensors to = Ready(outputs);
    Tensors from = Ready(inputs);
    return Done(cpu_->allgather_into_tensor_coalesced(to, from, options),
                outputs, to);
  }

  WorkPtr gather(Lists& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override {
    Tensors from = Ready(inputs);
    Lists to = Ready(outputs);
    return Done(cpu_->gather(to, from, options), Flat(outputs), Flat(to));
  }

  WorkPtr scatter(Tensors& outputs, Lists& inputs,
                  const c10d::ScatterOptions& options) override {
    Tensors to = Ready(outputs);
    Lists from = Ready(inputs);
    return Done(cpu_->scatter(to, from, options), outputs, to);
  }

  WorkPtr _reduce_scatter_base(
      at::Tensor& output, at::Tensor& input,
      const c10d::ReduceScatterOptions& options) override {
    at::Tensor to = Ready(output);
    at::Tensor from = Ready(input);
    auto [changed, divisor] = WithoutMean(options);
    return Done(cpu_->_reduce_scatter_base(to, from, changed), {output}, {to},
                divisor);
  }

  WorkPtr reduce_scatter_tensor_coalesced(
      Tensors& outputs, Tensors& inputs,
      const c10d::ReduceScatterOptions& options) override {
    Tensors to = Ready(outputs);
    Tensors from = Ready(inputs);
    auto [changed, divisor] = WithoutMean(options);
    return Done(cpu_->reduce_scatter_tensor_coalesced(to, from, changed),
                outputs, to, divisor);
  }

  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input,
                        std::vector<int64_t>& output_sizes,
                        std::vector<int64_t>& input_sizes,
                        const c10d::AllToAllOptions& options) override {
    at::Tensor to = Ready(output);
    at::Tensor from = Ready(input);
    return Done(
        cpu_->alltoall_base(to, from, output_sizes, input_sizes, options),
        {output}, {to});
  }

  WorkPtr send(Tensors& tensors, int to, int tag) override {
    Tensors faces = Ready(tensors);
    return Done(cpu_->send(faces, to, tag), {}, faces);
  }

  WorkPtr recv(Tensors& tensors, int from, int tag) override {
    Tensors faces = Ready(tensors);
    return Done(cpu_->recv(faces, from, tag), tensors, faces);
  }

  WorkPtr recvAnysource(Tensors& tensors, int tag) override {
    Tensors faces = Ready(tensors);
    return Done(cpu_->recvAnysource(faces, tag), tensors, faces);
  }

  WorkPtr barrier(const c10d::BarrierOptions& options) override {
    WaitForStream(CurrentDevice());
    return cpu_->barrier(options);
  }

 private:
  // A face of what the current stream has written.
  static at::Tensor Ready(const at::Tensor& tensor) {
    if (!IsNpu(tensor)) return tensor;
    WaitForStream(tensor.device().index());
    Faces faces;
    return faces.Face(tensor, /*written=*/false);
  }
  static Tensors Ready(const Tensors& tensors) {
    Tensors faces;
    for (const at::Tensor& tensor : tensors) faces.push_back(Ready(tensor));
    return faces;
  }
  static Lists Ready(const Lists& lists) {
    Lists faces;
    for (const Tensors& list : lists) faces.push_back(Ready(list));
    return faces;
  }
  static Tensors Flat(const Lists& lists) {
    Tensors flat;
    for (const Tensors& list : lists) {
      flat.insert(flat.end(), list.begin(), list.end());
    }
    return flat;
  }

  // The same with a sum in place of a mean, and what to divide it by.
  template <typename Options>
  std::pair<Options, int> WithoutMean(const Options& options) const {
    Options changed = options;
    if (options.reduceOp != c10d::ReduceOp::AVG) return {changed, 1};
    changed.reduceOp = c10d::ReduceOp::SUM;
    return {changed, getSize()};
  }

  static WorkPtr Done(WorkPtr work, Tensors npu, Tensors faces,
                      int divisor = 1) {
    return c10::make_intrusive<FacesWork>(std::move(work), std::move(npu),
                                          std::move(faces), divisor);
  }

  c10::intrusive_ptr<c10d::Backend> cpu_;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> MakeCollectives(
    c10::intrusive_ptr<c10d::Backend> cpu) {
  return c10::make_intrusive<Collectives>(std::move(cpu));
}

}  // namespace flashacl::bridge
