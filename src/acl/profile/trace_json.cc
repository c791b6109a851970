// SPDX-License-Identifier: Apache-2.0
#include "acl/profile/trace_json.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <tuple>
#include <unordered_set>

#include "acl/profile/output_file.h"
#include "plan/plan.h"
#include "problem/notation.h"

namespace flashacl::acl::profile {
namespace {

void AppendNumber(int64_t number, std::string& out) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  out.append(digits, end);
}

// Microseconds with three decimals.
void AppendTime(int64_t ns, std::string& out) {
  AppendNumber(ns / 1000, out);
  const int64_t rest = ns % 1000;
  out += '.';
  for (const int64_t unit : {100, 10, 1}) {
    out += static_cast<char>('0' + rest / unit % 10);
  }
}

// Bytes of the character at the front of `text`, which is not ASCII; 0 if it is
// no UTF-8.
size_t CharacterBytes(std::string_view text) {
  const auto byte = [&](size_t n) {
    return n < text.size() ? static_cast<unsigned char>(text[n]) : 0u;
  };
  const auto follows = [&](size_t n, unsigned least = 0x80,
                           unsigned greatest = 0xBF) {
    return least <= byte(n) && byte(n) <= greatest;
  };
  const unsigned first = byte(0);
  if (0xC2 <= first && first <= 0xDF) return follows(1) ? 2 : 0;
  if (0xE0 <= first && first <= 0xEF) {
    // Nothing that is shorter in two bytes, and no half of a UTF-16 pair.
    const bool second =
        follows(1, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF);
    return second && follows(2) ? 3 : 0;
  }
  if (0xF0 <= first && first <= 0xF4) {
    const bool second =
        follows(1, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF);
    return second && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

void AppendControl(char c, std::string& out) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += "\\u00";
  out += kHex[static_cast<unsigned char>(c) >> 4];
  out += kHex[static_cast<unsigned char>(c) & 15];
}

// One JSON object, member by member. Not ended by its destructor: there may be
// no memory for a brace.
class Object {
 public:
  explicit Object(std::string& out) : out_(out) { out_ += '{'; }
  void End() { out_ += '}'; }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  std::string& Member(std::string_view name) {
    if (!empty_) out_ += ',';
    empty_ = false;
    out_ += '"';
    out_ += name;
    out_ += "\":";
    return out_;
  }
  void Text(std::string_view name, std::string_view text) {
    AppendString(text, Member(name));
  }
  void Number(std::string_view name, int64_t number) {
    AppendNumber(number, Member(name));
  }
  void Time(std::string_view name, int64_t ns) { AppendTime(ns, Member(name)); }
  void Id(uint64_t id) {
    char digits[20] = "0x";
    const auto end = std::to_chars(digits + 2, digits + 20, id, 16).ptr;
    Text("id", {digits, end});
  }

 private:
  std::string& out_;
  bool empty_ = true;
};

bool HasOwnRow(Kind kind) {
  return kind != Kind::kSubmission && kind != Kind::kMark &&
         kind != Kind::kRange;
}

// What readers colour and filter by.
std::string_view Category(const Event& event) {
  switch (event.kind) {
    case Kind::kCall:
      return "call";
    case Kind::kPlan:
      return "plan";
    case Kind::kLaunch:
      return "launch";
    case Kind::kRun:
      if (event.plan != nullptr) return "operator";
      return event.bytes >= 0 ? "memory" : "task";
    case Kind::kWait:
      return "wait";
    case Kind::kCallback:
      return "callback";
    case Kind::kPushed:
    case Kind::kRange:
      return "range";
    case Kind::kMark:
      return "mark";
    case Kind::kSubmission:
      return "submission";
  }
  return "";
}

// What ties a submission to its run.
uint64_t FlowId(const Event& event) {
  return static_cast<uint64_t>(static_cast<uint32_t>(event.stream)) << 32 |
         (event.task & 0xFFFFFFFF);
}

struct Row {
  const Track* track;
  const Event* event;

  bool of_stream() const { return track->stream != kNoStream; }
  int64_t process() const {
    return getpid() + (of_stream() ? kStreamsOfProcess : 0);
  }
  int64_t number() const {
    return of_stream() ? RowOfStream(track->stream) : track->thread;
  }
};

// Row by row; in each, by begin, and outer before inner. Submissions stand
// after the calls that make them.
std::vector<Row> Sorted(const Recorded& recorded) {
  std::vector<Row> rows;
  for (const auto& chunk : recorded.chunks) {
    const uint32_t used = chunk->used();
    for (uint32_t n = 0; n < used; ++n) {
      const Event& event = (*chunk)[n];
      if (event.begin_ns < recorded.begin_ns) continue;
      if (event.end_ns > recorded.end_ns) continue;
      rows.push_back({&chunk->track(), &event});
    }
  }
  const auto key = [](const Row& row) {
    return std::tuple(row.of_stream(), row.number(), row.event->begin_ns,
                      !HasOwnRow(row.event->kind), -row.event->end_ns,
                      row.event->kind);
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const Row& a, const Row& b) { return key(a) < key(b); });
  return rows;
}

class Writer {
 public:
  Writer(const Recorded& recorded, const std::string& path)
      : recorded_(recorded), file_(path), out_(file_.text()) {}

  int Write() {
    const std::vector<Row> rows = Sorted(recorded_);
    for (const Row& row : rows) {
      if (row.event->kind == Kind::kSubmission) {
        submitted_.insert(FlowId(*row.event));
      }
    }
    out_ += "{\"displayTimeUnit\":\"ns\",\n\"otherData\":";
    WriteAbout();
    out_ += ",\n\"traceEvents\":[";
    WriteNameOfProcess(getpid(), "threads", 0);
    WriteNameOfProcess(getpid() + kStreamsOfProcess, "streams", 1);
    const Row* before = nullptr;
    for (const Row& row : rows) {
      const bool first = before == nullptr ||
                         before->process() != row.process() ||
                         before->number() != row.number();
      if (first) WriteNameOfRow(row);
      before = &row;
      WriteEvent(row);
      file_.Flush();
    }
    out_ += "\n]}\n";
    return file_.Close();
  }

 private:
  void WriteAbout() {
    using std::chrono::duration_cast;
    using std::chrono::nanoseconds;
    const auto unix_time = std::chrono::system_clock::now().time_since_epoch();
    const int64_t zero = duration_cast<nanoseconds>(unix_time).count() - Now();
    Object about(out_);
    about.Text("producer", "FlashACL");
    about.Text("clock", "CLOCK_MONOTONIC");
    // As text: readers keep 53 bits of a number.
    about.Text("unix_ns_of_time_0", Str("{}", zero));
    about.Number("dropped_events", static_cast<int64_t>(recorded_.dropped));
    about.End();
  }

  std::string& NextEvent() {
    out_ += first_ ? "\n" : ",\n";
    first_ = false;
    return out_;
  }

  void WriteMetadata(std::string_view what, int64_t process, int64_t row,
                     std::string_view name, int64_t place) {
    const bool of_process = what == "process";
    for (const bool sorts : {false, true}) {
      Object event(NextEvent());
      event.Text("ph", "M");
      event.Text("name", std::string(what) + (sorts ? "_sort_index" : "_name"));
      event.Number("pid", process);
      if (!of_process) event.Number("tid", row);
      Object arguments(event.Member("args"));
      if (sorts) {
        arguments.Number("sort_index", place);
      } else {
        arguments.Text("name", name);
      }
      arguments.End();
      event.End();
    }
  }

  void WriteNameOfProcess(int64_t process, std::string_view what,
                          int64_t place) {
    WriteMetadata("process", process, 0,
                  Str("FlashACL {} of process {}", what, getpid()), place);
  }

  void WriteNameOfRow(const Row& row) {
    const Track& track = *row.track;
    if (row.of_stream()) {
      WriteMetadata("thread", row.process(), row.number(),
                    Str("stream {}, device {}", track.stream, track.device),
                    track.stream);
    } else {
      WriteMetadata("thread", row.process(), row.number(),
                    Str("{} {}", track.thread_name.data(), track.thread),
                    track.thread);
    }
  }

  // What every event says, but for its time.
  static void Common(Object& event, std::string_view phase, const Row& row,
                     std::string_view category) {
    event.Text("ph", phase);
    std::string& name = event.Member("name");
    if (row.event->said != nullptr) {
      AppendString(row.event->said->text, name);
    } else if (row.event->kind == Kind::kPlan) {
      AppendString(std::string(row.event->name) + "GetWorkspaceSize", name);
    } else {
      AppendString(row.event->name.empty() ? "task" : row.event->name, name);
    }
    event.Text("cat", category);
    event.Number("pid", row.process());
    event.Number("tid", row.number());
  }

  void WriteArguments(Object& event, const Event& said) {
    Object arguments(event.Member("args"));
    if (said.stream != kNoStream) arguments.Number("stream", said.stream);
    if (said.task != 0 && said.kind != Kind::kRange) {
      arguments.Number("task", static_cast<int64_t>(said.task));
    }
    if (said.bytes >= 0) arguments.Number("bytes", said.bytes);
    if (said.code != 0) arguments.Number("error", said.code);
    if (said.plan != nullptr) {
      arguments.Text("implementation", said.plan->implementation->name);
      arguments.Text("problem", ToString(said.plan->problem()));
      arguments.Text("plan", said.plan->prepared->Describe());
    }
    if (said.said != nullptr) {
      if (!said.said->domain.empty()) {
        arguments.Text("domain", said.said->domain);
      }
      if (!said.said->detail.empty()) {
        arguments.Text("detail", said.said->detail);
      }
    }
    arguments.End();
  }

  void WriteEvent(const Row& row) {
    switch (row.event->kind) {
      case Kind::kSubmission:
        return WriteFlow(row, "s");
      case Kind::kMark:
        return WriteMark(row);
      case Kind::kRange:
        return WriteRange(row);
      default:
        return WriteSpan(row);
    }
  }

  void WriteSpan(const Row& row) {
    const Event& said = *row.event;
    Object event(NextEvent());
    Common(event, "X", row, Category(said));
    event.Time("ts", said.begin_ns);
    event.Time("dur", said.end_ns - said.begin_ns);
    WriteArguments(event, said);
    event.End();
    if (said.kind == Kind::kRun && submitted_.contains(FlowId(said))) {
      WriteFlow(row, "f");
    }
  }

  // An arrow's start or its end, which belong to the span at its time.
  void WriteFlow(const Row& row, std::string_view phase) {
    Object event(NextEvent());
    event.Text("ph", phase);
    event.Text("name", "submission");
    event.Text("cat", "submission");
    event.Id(FlowId(*row.event));
    event.Number("pid", row.process());
    event.Number("tid", row.number());
    event.Time("ts", row.event->begin_ns);
    if (phase == "f") event.Text("bp", "e");
    event.End();
  }

  void WriteMark(const Row& row) {
    Object event(NextEvent());
    Common(event, "i", row, Category(*row.event));
    event.Time("ts", row.event->begin_ns);
    event.Text("s", "t");
    WriteArguments(event, *row.event);
    event.End();
  }

  void WriteRange(const Row& row) {
    for (const bool begins : {true, false}) {
      Object event(NextEvent());
      Common(event, begins ? "b" : "e", row, Category(*row.event));
      event.Id(row.event->task);
      event.Time("ts", begins ? row.event->begin_ns : row.event->end_ns);
      if (begins) WriteArguments(event, *row.event);
      event.End();
    }
  }

  const Recorded& recorded_;
  OutputFile file_;
  std::string& out_;
  std::unordered_set<uint64_t> submitted_;
  bool first_ = true;
};

}  // namespace

void AppendString(std::string_view text, std::string& out) {
  out += '"';
  while (!text.empty()) {
    const char c = text.front();
    size_t bytes = 1;
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      AppendControl(c, out);
    } else if (static_cast<unsigned char>(c) < 0x80) {
      out += c;
    } else if (bytes = CharacterBytes(text); bytes > 0) {
      out += text.substr(0, bytes);
    } else {
      out += "\\ufffd";
      bytes = 1;
    }
    text.remove_prefix(bytes);
  }
  out += '"';
}

Status WriteTrace(const Recorded& recorded, const std::string& path) {
  const int error = Writer(recorded, path).Write();
  if (error == 0) return {};
  return RuntimeFailure("file {} cannot be written: {}", path,
                        std::strerror(error));
}

}  // namespace flashacl::acl::profile
