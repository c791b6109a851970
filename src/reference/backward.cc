// SPDX-License-Identifier: Apache-2.0
// With p_ij = exp(s_ij - m_i) / l_i, c_ij what dropout makes of a prob of 1
// and delta_i = do_i . o_i:
//   dp_ij = (do_i . v_j) c_ij           ds_ij = p_ij (dp_ij - delta_i)
//   dq_i = scale sum_j ds_ij k_j        dk_j = scale sum_i ds_ij q_i
//   dv_j = sum_i p_ij c_ij do_i         dsink = -sum_i psink_i sum_j p_ij dp_ij
// Rows of one kv head are taken in chunks. Each row of a chunk computes its
// probs by itself; then each piece of the columns adds the rows up in their
// order, so that sums do not depend on which worker computes what.
#include <algorithm>
#include <cmath>
#include <span>

#include "problem/element_walk.h"
#include "reference/reference.h"
#include "reference/rows.h"
#include "reference/scores.h"

namespace flashacl::reference {
namespace {

constexpr int64_t kChunkRows = 64;  // workers wait for each other after so many

int64_t BiasElements(const AttentionProblem& problem) {
  if (!problem.has(Slot::kGradBias)) return 0;
  return Grid(BiasSpec(problem, Slot::kGradBias), problem.lengths.sequences)
      .ElementsNeeded();
}

struct BackwardWorkspace {
  BackwardWorkspace(const AttentionProblem& problem, WorkspaceLayout& layout)
      : rows(
            std::min(kChunkRows, problem.lengths.max_rows() * problem.group())),
        width(MostVisible(problem)),
        query_dim(problem.score_dim()),
        key_values(problem, layout),
        counts(layout.Reserve<int64_t>("visible counts", rows)),
        columns(layout.Reserve<int64_t>("visible columns", rows * width)),
        probs(layout.Reserve<double>("probs", rows * width)),
        grad_scores(layout.Reserve<double>("grad scores", rows * width)),
        query(layout.Reserve<double>("query rows", rows * query_dim)),
        grad_query(layout.Reserve<double>("grad query rows", rows * query_dim)),
        out(layout.Reserve<double>("out rows", rows * problem.v_dim)),
        grad_out(layout.Reserve<double>("grad out rows", rows * problem.v_dim)),
        sink_terms(layout.Reserve<double>("sink terms", rows)),
        grad_key(layout.Reserve<double>(
            "grad keys", problem.lengths.max_columns() * query_dim)),
        grad_value(layout.Reserve<double>(
            "grad values", problem.lengths.max_columns() * problem.v_dim)),
        grad_bias(layout.Reserve<double>("grad bias", BiasElements(problem))),
        grad_sink(layout.Reserve<double>(
            "grad sink", problem.has(Slot::kGradSink) ? problem.heads : 0)) {}

  int64_t rows;   // of one chunk, at most
  int64_t width;  // columns of one row, at most
  int64_t query_dim;
  KeyValues key_values;
  Region<int64_t> counts;      // [row of chunk]
  Region<int64_t> columns;     // [row of chunk, place]
  Region<double> probs;        // [row of chunk, place], after dropout
  Region<double> grad_scores;  // [row of chunk, place]
  Region<double> query, grad_query, out, grad_out;  // [row of chunk, channel]
  Region<double> sink_terms;                        // [row of chunk]
  Region<double> grad_key, grad_value;  // [column, channel] of one kv head
  Region<double> grad_bias;             // as the tensor
  Region<double> grad_sink;             // [head]
};

class Backward {
 public:
  Backward(const Operands& operands, BackwardWorkspace& buffers,
           std::byte* workspace, Workers& workers)
      : operands_(operands),
        problem_(operands.problem),
        buffers_(buffers),
        workspace_(workspace),
        workers_(workers),
        grad_bias_(BiasSpec(problem_, Slot::kGradBias), operands.sequences) {}

  void Run();

 private:
  // A row of a chunk: which one it is, its number there, and its operands.
  struct ChunkRow {
    Row row;
    int64_t number;
    std::span<const int64_t> columns;  // that it sees
    std::span<double> probs;
    std::span<double> grad_scores;
    std::span<double> query, grad_query, out, grad_out;
  };

  void ClearResults();
  void KvHead(int64_t sequence, int64_t kv_head);
  ChunkRow At(const Row& row, int64_t number) const;

  // Of one row, by one worker.
  void ComputeRow(const Row& row, int64_t number);
  void GradScores(const ChunkRow& at);
  void StoreGradQuery(const ChunkRow& at);

  // Of one piece of the columns, by one worker, over all rows of a chunk.
  void AddToColumns(const ChunkRow& at, Range piece);
  void StoreGradKeys(int64_t sequence, int64_t kv_head, Range piece);

  // By one worker alone: their elements may belong to any row and column.
  void AddToBiasAndSink(const ChunkRow& at);
  void StoreBiasAndSink();

  const Operands& operands_;
  const AttentionProblem& problem_;
  BackwardWorkspace& buffers_;
  std::byte* workspace_;
  Workers& workers_;
  Grid grad_bias_;
};

void Backward::Run() {
  ClearResults();
  for (int64_t b = 0; b < problem_.lengths.count(); ++b) {
    for (int64_t g = 0; g < problem_.kv_heads; ++g) KvHead(b, g);
  }
  StoreBiasAndSink();
}

// What no sequence owns is 0, and so is every sum to begin with.
void Backward::ClearResults() {
  for (const Slot slot :
       {Slot::kGradQuery, Slot::kGradQueryRope, Slot::kGradKey,
        Slot::kGradKeyRope, Slot::kGradValue}) {
    if (problem_.has(slot)) operands_.tensor(slot).Fill(0);
  }
  std::ranges::fill(buffers_.grad_bias.In(workspace_), 0.0);
  std::ranges::fill(buffers_.grad_sink.In(workspace_), 0.0);
}

void Backward::KvHead(int64_t sequence, int64_t kv_head) {
  const Sequence& extent = operands_.sequence(sequence);
  if (extent.queries.empty() || extent.keys.empty()) return;
  buffers_.key_values.Load(operands_, sequence, kv_head, workers_);
  const auto clear = [&](const Region<double>& sums, int64_t width) {
    const int64_t count = extent.columns() * width;
    std::ranges::fill(sums.In(workspace_).first(static_cast<size_t>(count)), 0);
  };
  clear(buffers_.grad_key, buffers_.query_dim);
  clear(buffers_.grad_value, problem_.v_dim);

  const int64_t rows = extent.rows() * problem_.group();
  for (int64_t first = 0; first < rows; first += buffers_.rows) {
    const int64_t count = std::min(buffers_.rows, rows - first);
    const auto row = [&](int64_t number) {
      return RowOfGroup(problem_, sequence, kv_head, first + number);
    };
    workers_.ForEach(count, [&](int64_t n) { ComputeRow(row(n), n); });
    ForPieces(workers_, extent.columns(), [&](Range piece) {
      for (int64_t n = 0; n < count; ++n) AddToColumns(At(row(n), n), piece);
    });
    for (int64_t n = 0; n < count; ++n) AddToBiasAndSink(At(row(n), n));
  }
  ForPieces(workers_, extent.columns(),
            [&](Range piece) { StoreGradKeys(sequence, kv_head, piece); });
}

Backward::ChunkRow Backward::At(const Row& row, int64_t number) const {
  const auto of = [&](const auto& region, int64_t width) {
    return RowOf(region.In(workspace_), number, width);
  };
  const size_t count = static_cast<size_t>(
      buffers_.counts.In(workspace_)[static_cast<size_t>(number)]);
  return {.row = row,
          .number = number,
          .columns = of(buffers_.columns, buffers_.width).first(count),
          .probs = of(buffers_.probs, buffers_.width).first(count),
          .grad_scores = of(buffers_.grad_scores, buffers_.width).first(count),
          .query = of(buffers_.query, buffers_.query_dim),
          .grad_query = of(buffers_.grad_query, buffers_.query_dim),
          .out = of(buffers_.out, problem_.v_dim),
          .grad_out = of(buffers_.grad_out, problem_.v_dim)};
}

void Backward::ComputeRow(const Row& row, int64_t number) {
  buffers_.counts.In(workspace_)[static_cast<size_t>(number)] = VisibleColumns(
      operands_, row, buffers_.key_values,
      RowOf(buffers_.columns.In(workspace_), number, buffers_.width));
  const ChunkRow at = At(row, number);
  LoadQuery(operands_, row, at.query);
  operands_.LoadRow(Slot::kOut, row, at.out);
  operands_.LoadRow(Slot::kGradOut, row, at.grad_out);
  GradScores(at);
  StoreGradQuery(at);
}

// Fills in probs and grad_scores, and what the row adds to the sink.
void Backward::GradScores(const ChunkRow& at) {
  const Row& row = at.row;
  const auto of_row = [&](Slot slot, const Grid& grid) {
    return operands_.tensor(slot).Load(PlaneOf(grid, row).At(row.i, 0));
  };
  const double max = of_row(Slot::kRowMax, operands_.row_max);
  const double sum = of_row(Slot::kRowSum, operands_.row_sum);
  const auto prob = [&](double score) {
    return sum == 0 ? 0 : std::exp(score - max) / sum;
  };
  const double delta = Dot(at.grad_out, at.out);
  const GridPlane keep = PlaneOf(operands_.keep, row);
  Scores(operands_, row, buffers_.key_values, at.query, at.columns, at.probs);
  double sum_p_dp = 0;
  for (size_t n = 0; n < at.columns.size(); ++n) {
    const int64_t j = at.columns[n];
    const double p = prob(at.probs[n]);
    const double kept = Kept(operands_, keep, row.i, j);
    const double dp = Dot(at.grad_out, buffers_.key_values.value(j)) * kept;
    at.probs[n] = p * kept;
    at.grad_scores[n] = p * (dp - delta);
    sum_p_dp += p * dp;
  }

  const Tensor sink = operands_.tensor(Slot::kSink);
  const bool adds = sink.present() && !at.columns.empty();
  buffers_.sink_terms.In(workspace_)[static_cast<size_t>(at.number)] =
      adds ? -prob(sink.Load(sink.spec.At(row.head))) * sum_p_dp : 0;
}

void Backward::StoreGradQuery(const ChunkRow& at) {
  const double scale = problem_.score.scale;
  std::ranges::fill(at.grad_query, 0.0);
  for (size_t n = 0; n < at.columns.size(); ++n) {
    Add(scale * at.grad_scores[n], buffers_.key_values.key(at.columns[n]),
        at.grad_query);
  }
  const size_t qk_dim = static_cast<size_t>(problem_.qk_dim);
  operands_.StoreRow(Slot::kGradQuery, at.row, at.grad_query.first(qk_dim));
  operands_.StoreRow(Slot::kGradQueryRope, at.row,
                     at.grad_query.subspan(qk_dim));
}

void Backward::AddToColumns(const ChunkRow& at, Range piece) {
  const double scale = problem_.score.scale;
  for (size_t n = 0; n < at.columns.size(); ++n) {
    const int64_t j = at.columns[n];
    if (j < piece.first || j >= piece.last) continue;
    Add(scale * at.grad_scores[n], at.query,
        RowOf(buffers_.grad_key.In(workspace_), j, buffers_.query_dim));
    Add(at.probs[n], at.grad_out,
        RowOf(buffers_.grad_value.In(workspace_), j, problem_.v_dim));
  }
}

void Backward::StoreGradKeys(int64_t sequence, int64_t kv_head, Range piece) {
  const size_t qk_dim = static_cast<size_t>(problem_.qk_dim);
  const int64_t first = operands_.sequence(sequence).keys.first;
  for (int64_t j = piece.first; j < piece.last; ++j) {
    const auto key =
        RowOf(buffers_.grad_key.In(workspace_), j, buffers_.query_dim);
    const auto value =
        RowOf(buffers_.grad_value.In(workspace_), j, problem_.v_dim);
    if (problem_.kv.value_is_key) {
      Add(1, value, key.first(value.size()));
    }
    const auto store = [&](Slot slot, std::span<const double> channels) {
      const Tensor tensor = operands_.tensor(slot);
      if (!tensor.present()) return;
      tensor.StoreRow(tensor.spec.At(sequence, first + j, kv_head), channels);
    };
    store(Slot::kGradKey, key.first(qk_dim));
    store(Slot::kGradKeyRope, key.subspan(qk_dim));
    store(Slot::kGradValue, value);
  }
}

void Backward::AddToBiasAndSink(const ChunkRow& at) {
  const Row& row = at.row;
  if (problem_.has(Slot::kGradSink)) {
    buffers_.grad_sink.In(workspace_)[static_cast<size_t>(row.head)] +=
        buffers_.sink_terms.In(workspace_)[static_cast<size_t>(at.number)];
  }
  if (!problem_.has(Slot::kGradBias)) return;
  const std::span<double> sums = buffers_.grad_bias.In(workspace_);
  const Score::Bias kind = problem_.score.bias;
  const GridPlane plane = PlaneOf(grad_bias_, row);
  const double factor =
      kind == Score::Bias::kBeforeScale ? problem_.score.scale : 1.0;
  for (size_t n = 0; n < at.columns.size(); ++n) {
    const int64_t j = at.columns[n];
    if (IsAlibi(kind)) {
      sums[static_cast<size_t>(grad_bias_.spec().At(row.sequence, row.head))] -=
          at.grad_scores[n] *
          problem_.score.AlibiFactor(row.sequence, row.i, j);
    } else {
      sums[static_cast<size_t>(plane.At(row.i, j))] +=
          factor * at.grad_scores[n];
    }
  }
}

void Backward::StoreBiasAndSink() {
  if (problem_.has(Slot::kGradSink)) {
    const Tensor tensor = operands_.tensor(Slot::kGradSink);
    for (int64_t head = 0; head < problem_.heads; ++head) {
      tensor.Store(
          tensor.spec.At(head),
          buffers_.grad_sink.In(workspace_)[static_cast<size_t>(head)]);
    }
  }
  if (!problem_.has(Slot::kGradBias)) return;
  const Tensor tensor{grad_bias_.spec(), operands_.bindings[Slot::kGradBias]};
  const std::span<const double> sums = buffers_.grad_bias.In(workspace_);
  const auto store = [&](int64_t offset) {
    tensor.Store(offset, sums[static_cast<size_t>(offset)]);
  };
  // All that there may be, though sequences may be shorter in this run.
  ForEachElement(tensor.spec, static_cast<int64_t>(sums.size()), store);
}

class PreparedBackward final : public HostPrepared {
 public:
  PreparedBackward(const AttentionProblem& problem, const DeviceInfo&,
                   WorkspaceLayout& layout)
      : HostPrepared(problem), workspace_(problem, layout) {}

  Status Run(const Bindings& bindings, std::byte* memory,
             Workers& workers) const override {
    BackwardWorkspace buffers = workspace_;
    buffers.key_values.Attach(memory);
    const Operands operands(problem(), bindings);
    Backward(operands, buffers, memory, workers).Run();
    return {};
  }

  std::string Describe() const override { return kRowByRow; }

 private:
  const BackwardWorkspace workspace_;
};

}  // namespace

std::shared_ptr<const Prepared> PrepareBackward(const AttentionProblem& problem,
                                                const DeviceInfo& device,
                                                WorkspaceLayout& layout) {
  return MakePrepared<PreparedBackward>(problem, device, layout);
}

}  // namespace flashacl::reference
