// SPDX-License-Identifier: Apache-2.0
// out(i) = sum_j exp(s_ij - m_i) v_j / l_i over the columns row i sees, with
// m_i = max_j s_ij and l_i = sum_j exp(s_ij - m_i); a sink is one more column
// whose value is zero; dropout scales the probs in out, not in l, and 8-bit
// queries have them rounded to 8 bits there.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>

#include "reference/reference.h"
#include "reference/rows.h"
#include "reference/scores.h"

namespace flashacl::reference {
namespace {

// What one run needs besides its operands: keys and values of the sequence at
// hand, and for every worker the scores of one row.
struct ForwardWorkspace {
  static constexpr int64_t kMaxWorkers = 64;

  ForwardWorkspace(const AttentionProblem& problem, WorkspaceLayout& layout)
      : most(std::min(kMaxWorkers,
                      problem.lengths.max_rows() * problem.group())),
        width(MostVisible(problem)),
        query_dim(problem.score_dim()),
        key_values(problem, layout),
        columns(layout.Reserve<int64_t>("visible columns", most * width)),
        scores(layout.Reserve<double>("scores", most * width)),
        query(layout.Reserve<double>("query rows", most * query_dim)),
        out(layout.Reserve<double>("out rows", most * problem.v_dim)) {}

  int64_t most;   // workers
  int64_t width;  // columns of one row, at most
  int64_t query_dim;
  KeyValues key_values;
  Region<int64_t> columns;
  Region<double> scores;
  Region<double> query;
  Region<double> out;
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct RowResult {
  double max = 0;
  double sum = 0;
  double lse = kInfinity;
};

double SinkOf(const Operands& operands, int64_t head) {
  const Tensor sink = operands.tensor(Slot::kSink);
  return sink.present() ? sink.Load(sink.spec.At(head)) : -kInfinity;
}

// The prob as it meets the value.
double Rounded(const Tensor& scale, double prob) {
  if (!scale.present()) return prob;
  return std::clamp(std::rint(prob * scale.Load(0)), -128.0, 127.0);
}

// Turns the scores of a row into its output.
RowResult Attend(const Operands& operands, const Row& row,
                 const KeyValues& key_values, std::span<const int64_t> columns,
                 std::span<double> scores, std::span<double> out) {
  const double sink = SinkOf(operands, row.head);
  double max = sink;
  for (const double score : scores) max = std::fmax(max, score);

  // A row that sees nothing has max = -inf; exp(-inf - 0) is the 0 it needs,
  // where exp(-inf - -inf) would be NaN.
  const double from = std::isinf(max) && max < 0 ? 0 : max;
  double sum = std::exp(sink - from);
  for (double& score : scores) {
    score = std::exp(score - from);
    sum += score;
  }

  std::fill(out.begin(), out.end(), 0.0);
  if (sum == 0) {
    const bool listed = operands.problem.kv.gathers();
    return listed ? RowResult{0, 0, kInfinity}
                  : RowResult{-FLT_MAX, FLT_MAX, kInfinity};
  }
  const GridPlane keep = PlaneOf(operands.keep, row);
  const Tensor prob_scale = operands.tensor(Slot::kWeightScale);
  for (size_t n = 0; n < columns.size(); ++n) {
    const double kept = Kept(operands, keep, row.i, columns[n]);
    Add(Rounded(prob_scale, scores[n]) * kept, key_values.value(columns[n]),
        out);
  }
  for (double& element : out) element /= sum;
  return {max, sum, columns.empty() ? kInfinity : max + std::log(sum)};
}

// x becomes clamp(rint(x * scale + offset)) where out is int8; NaN becomes 0,
// for want of a better byte.
void Quantise(const Operands& operands, int64_t head, std::span<double> out) {
  const Tensor scale = operands.tensor(Slot::kOutScale);
  const Tensor offset = operands.tensor(Slot::kOutOffset);
  for (size_t d = 0; d < out.size(); ++d) {
    const int64_t channel = static_cast<int64_t>(d);
    double x = out[d];
    if (scale.present()) x *= scale.Load(scale.spec.At(head, channel));
    if (offset.present()) x += offset.Load(offset.spec.At(head, channel));
    out[d] = std::isnan(x) ? 0 : std::clamp(std::rint(x), -128.0, 127.0);
  }
}

// The row max or row sum, as often as the tensor repeats it.
void StoreCopies(const Operands& operands, Slot slot, const Grid& grid,
                 const Row& row, double value) {
  const Tensor tensor = operands.tensor(slot);
  if (!tensor.present()) return;
  const GridPlane plane = PlaneOf(grid, row);
  for (int64_t n = 0; n < tensor.spec.dims[3]; ++n) {
    tensor.Store(plane.At(row.i, n), value);
  }
}

void StoreRow(const Operands& operands, const Row& row, RowResult result,
              std::span<double> out) {
  if (operands.sequence(row.sequence).columns() == 0)
    result = {0, 0, kInfinity};
  if (operands.problem[Slot::kOut].dtype == DType::kI8) {
    Quantise(operands, row.head, out);
  }
  operands.StoreRow(Slot::kOut, row, out);
  StoreCopies(operands, Slot::kRowMax, operands.row_max, row, result.max);
  StoreCopies(operands, Slot::kRowSum, operands.row_sum, row, result.sum);
  StoreCopies(operands, Slot::kLse, operands.lse, row, result.lse);
}

class PreparedForward final : public HostPrepared {
 public:
  PreparedForward(const AttentionProblem& problem, const DeviceInfo&,
                  WorkspaceLayout& layout)
      : HostPrepared(problem), workspace_(problem, layout) {}

  Status Run(const Bindings& bindings, std::byte* memory,
             Workers& workers) const override;

  std::string Describe() const override { return kRowByRow; }

 private:
  const ForwardWorkspace workspace_;
};

Status PreparedForward::Run(const Bindings& bindings, std::byte* memory,
                            Workers& workers) const {
  ForwardWorkspace buffers = workspace_;
  buffers.key_values.Attach(memory);
  const Operands operands(problem(), bindings);

  // Rows that belong to no sequence are 0.
  for (const Slot slot : {Slot::kOut, Slot::kRowMax, Slot::kRowSum}) {
    const Tensor tensor = operands.tensor(slot);
    if (tensor.present()) tensor.Fill(0, RowBlockElements(problem(), slot));
  }
  const Tensor lse = operands.tensor(Slot::kLse);
  if (lse.present()) {
    lse.Fill(kInfinity, RowBlockElements(problem(), Slot::kLse));
  }

  const auto compute = [&](const Row& row, int64_t worker) {
    const auto columns =
        RowOf(buffers.columns.In(memory), worker, buffers.width);
    const auto scores = RowOf(buffers.scores.In(memory), worker, buffers.width);
    const auto query =
        RowOf(buffers.query.In(memory), worker, buffers.query_dim);
    const auto out = RowOf(buffers.out.In(memory), worker, problem().v_dim);
    LoadQuery(operands, row, query);
    const size_t count = static_cast<size_t>(
        VisibleColumns(operands, row, buffers.key_values, columns));
    const auto seen = columns.first(count);
    Scores(operands, row, buffers.key_values, query, seen, scores.first(count));
    const RowResult result = Attend(operands, row, buffers.key_values, seen,
                                    scores.first(count), out);
    StoreRow(operands, row, result, out);
  };

  for (int64_t b = 0; b < problem().lengths.count(); ++b) {
    const int64_t rows = operands.sequence(b).rows() * problem().group();
    for (int64_t g = 0; g < problem().kv_heads && rows > 0; ++g) {
      buffers.key_values.Load(operands, b, g, workers);
      workers.ForEach(std::min(buffers.most, rows), [&](int64_t worker) {
        for (int64_t n = worker; n < rows; n += buffers.most) {
          compute(RowOfGroup(problem(), b, g, n), worker);
        }
      });
    }
  }
  return {};
}

}  // namespace

std::shared_ptr<const Prepared> PrepareForward(const AttentionProblem& problem,
                                               const DeviceInfo& device,
                                               WorkspaceLayout& layout) {
  return MakePrepared<PreparedForward>(problem, device, layout);
}

}  // namespace flashacl::reference
