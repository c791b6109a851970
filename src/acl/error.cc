// SPDX-License-Identifier: Apache-2.0
#include "acl/error.h"

#include <pthread.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>

#include "acl/say.h"
#include "base/fork.h"
#include "base/once.h"

namespace flashacl::acl {
namespace {

struct Message {
  Failure own;
  std::shared_ptr<const Failure> of;  // instead of `own`, if not null
  timeval time{};

  const Failure& failure() const { return of != nullptr ? *of : own; }
};

std::string_view Text(Title title) {
  switch (title) {
    case Title::kNullPointer:
      return "Invalid_Argument_Null_Pointer(EH0008)";
    case Title::kInvalidArgument:
      return "Invalid_Argument(EH0007)";
    case Title::kReason:
      return "Invalid_Argument(EH0009)";
    case Title::kNotSupported:
      return "Not_Supported(EH0006)";
    case Title::kFile:
      return "File_Operation_Error(EH0004)";
    case Title::kCallSequence:
      return "Invalid_Argument_API_Call_Sequence(EE1018)";
    case Title::kStreamContext:
      return "Invalid_Argument_Stream_Context(EE1010)";
    case Title::kTimeout:
      return "Execution_Timeout(EE1002)";
    case Title::kRuntime:
      return "Runtime_Error(EE9999)";
    case Title::kAclnnParameter:
      return "AclNN_Parameter_Error(EZ1001)";
    case Title::kAclnnRuntime:
      return "AclNN_Runtime_Error(EZ9903)";
    case Title::kAclnnInner:
      return "AclNN_Inner_Error(EZ9999)";
  }
  return "";
}

// The last kCapacity messages; older ones are forgotten. Adding does not
// allocate.
class MessageList {
 public:
  bool empty() const { return count_ == 0; }

  void Add(Message message) {
    at_[next_ % kCapacity] = std::move(message);
    ++next_;
    if (count_ < kCapacity) ++count_;
  }

  // 0 is the newest.
  const Message& Newest(size_t age) const {
    return at_[(next_ - 1 - age) % kCapacity];
  }
  Message& Newest() { return at_[(next_ - 1) % kCapacity]; }

  std::string Layout() const {
    const Failure& newest = Newest(0).failure();
    const timeval& at = Newest(0).time;
    const std::string time = TimeText(at.tv_sec, at.tv_usec);
    std::string all;
    if (newest.title == Title::kAclnnInner) {
      all = Str("EZ9999: Internal error!\nEZ9999[PID: {}] {} {}: {}\n",
                getpid(), time, Text(newest.title), newest.Text());
    } else {
      all = Str("[PID: {}] {} {}: {}\n", getpid(), time, Text(newest.title),
                newest.Text());
    }
    if (count_ > 1) all += "TraceBack (most recent call last):\n";
    for (size_t age = 1; age < count_; ++age) {
      all += Str("        {}\n", Newest(age).failure().Text());
    }
    return all;
  }

  void Clear() {
    for (Message& message : at_) message = Message();
    count_ = next_ = 0;
  }

 private:
  static constexpr size_t kCapacity = 64;
  std::array<Message, kCapacity> at_;
  size_t next_ = 0;
  size_t count_ = 0;
};

struct Messages {
  MessageList list;
  std::string returned;                 // what the last TakeMessages points to
  std::shared_ptr<const Failure> kept;  // or this, where memory ran out
};

struct ProcessMessages {
  ProcessMutex mutex;
  Messages messages;
};

std::atomic<bool> to_process{false};
thread_local bool keeps_messages = false;
thread_local aclError last_error = 0;
// Made by the first failure of a thread, deleted when the thread ends: by a
// pthread key, as thread_local destructors would run before those of the
// program's own objects, which may still call us.
thread_local Messages* own_messages = nullptr;

ProcessMessages& TheProcess() {
  static constinit MadeOnce<ProcessMessages> process;
  return *process;
}

// Where threads keep messages when there is no memory: as many of them as are
// likely to fail at once.
struct Spare {
  Messages messages;
  std::atomic<bool> taken{false};
};
using Spares = std::array<Spare, 16>;

Spares& TheSpares() {
  static constinit MadeOnce<Spares> spares;
  return *spares;
}

Messages* TakeSpare() {
  for (Spare& spare : TheSpares()) {
    if (!spare.taken.exchange(true)) return &spare.messages;
  }
  return nullptr;
}

void DeleteOwnMessages(void* at) {
  own_messages = nullptr;
  auto* const messages = static_cast<Messages*>(at);
  for (Spare& spare : TheSpares()) {
    if (&spare.messages != messages) continue;
    *messages = Messages();
    spare.taken.store(false);
    return;
  }
  delete messages;
}

// Made when the library is loaded: with the first failure it may be too late.
pthread_key_t own_messages_key{};
const bool has_key = [] {
  TheSpares();
  TheProcess();
  return pthread_key_create(&own_messages_key, DeleteOwnMessages) == 0;
}();

// Null if there is no memory, and many threads failed already.
Messages* OwnMessages() {
  if (own_messages != nullptr) return own_messages;
  own_messages = new (std::nothrow) Messages;
  if (own_messages == nullptr) own_messages = TakeSpare();
  // Where that fails, the messages stay when the thread ends.
  if (has_key) pthread_setspecific(own_messages_key, own_messages);
  return own_messages;
}

bool ToProcess() { return to_process.load() && !keeps_messages; }

// Once, where it happened: not again by who synchronises with it.
void Hear(const Failure& failure) noexcept {
  (void)Contain(
      [&] {
        if (!IsHeard(Level::kError)) return 0;
        Log(Level::kError, Str("{}", failure.code),
            Str("{}: {}", Text(failure.title), failure.Text()));
        return 0;
      },
      [](bool /*no_memory*/) { return 0; });
}

aclError QueueMessage(Message message) noexcept {
  const aclError code = message.failure().code;
  if (message.of == nullptr) Hear(message.own);
  const int family = code / 1000;
  if (family == 107 || family == 207 || family == 507) last_error = code;
  gettimeofday(&message.time, nullptr);
  if (ToProcess()) {
    std::lock_guard lock(TheProcess().mutex);
    TheProcess().messages.list.Add(std::move(message));
  } else if (Messages* own = OwnMessages(); own != nullptr) {
    own->list.Add(std::move(message));
  }
  return code;
}

const char* TakeMessage(Messages& messages) {
  if (messages.list.empty()) return nullptr;
  const char* const text = Contain(
      [&] {
        messages.returned = messages.list.Layout();
        return messages.returned.c_str();
      },
      // No memory to lay them out: the newest is what matters.
      [&](bool) -> const char* {
        Message& newest = messages.list.Newest();
        if (newest.failure().fixed != nullptr) return newest.failure().fixed;
        messages.kept = std::move(newest.of);
        if (messages.kept != nullptr) return messages.kept->text.c_str();
        messages.returned = std::move(newest.own.text);
        return messages.returned.c_str();
      });
  messages.list.Clear();
  return text;
}

}  // namespace

std::string Failure::Text() const {
  if (fixed == nullptr) return text;
  const std::string said = Str("{} (code {})", fixed, code);
  return subject.empty() ? said : Str("{}: {}", subject, said);
}

aclError Fail(aclError code, Title title, std::string text) noexcept {
  return QueueMessage(
      {{code, title, std::move(text), nullptr, {}}, nullptr, {}});
}

aclError FailFixed(aclError code, Title title, const char* text,
                   std::string_view subject) noexcept {
  return QueueMessage({{code, title, {}, text, subject}, nullptr, {}});
}

aclError Fail(std::shared_ptr<const Failure> failure) noexcept {
  return QueueMessage({{}, std::move(failure), {}});
}

aclError FailNull(std::string_view function, std::string_view parameter) {
  return Fail(ACL_ERROR_INVALID_PARAM, Title::kNullPointer,
              Str("{} failed because {} cannot be a NULL pointer.", function,
                  parameter));
}

aclError FailValue(aclError code, std::string_view function,
                   std::string_view parameter, std::string value,
                   std::string_view expected) {
  return Fail(code, Title::kInvalidArgument,
              Str("{} failed because value {} for parameter {} is invalid. "
                  "Expected value: {}.",
                  function, value, parameter, expected));
}

int32_t FailStatus(int32_t contradiction_status,
                   const Status& status) noexcept {
  int32_t code = 0;
  Title title = Title::kAclnnParameter;
  switch (status.code()) {
    case Code::kOk:
      return 0;
    case Code::kNullArgument:
      code = 161001;
      break;
    case Code::kInvalidArgument:
    case Code::kUnsupported:
      code = 161002;
      break;
    case Code::kContradiction:
      code = contradiction_status;
      break;
    case Code::kOutOfMemory:
    case Code::kRuntime:
      code = 361001;
      title = Title::kAclnnRuntime;
      break;
    case Code::kInternal:  // not a live executor, which is the caller's
      code = 561000;
      break;
  }
  return Contain([&] { return Fail(code, title, status.message()); },
                 [&](bool) {
                   return FailFixed(code, title, "no memory for the message");
                 });
}

void KeepMessagesOnThisThread() {
  keeps_messages = true;
  OwnMessages();  // now, as there is memory
}

void TakeFailure(aclError code, Failure* failure) noexcept {
  Messages* own = OwnMessages();
  if (own == nullptr || own->list.empty()) {
    *failure = {code, Title::kRuntime, {}, "a task failed", {}};
    return;
  }
  *failure = std::move(own->list.Newest().own);
  failure->code = code;
  own->list.Clear();
}

void SetProcessMessages(bool process) { to_process.store(process); }

const char* TakeMessages() noexcept {
  if (ToProcess()) {
    std::lock_guard lock(TheProcess().mutex);
    return TakeMessage(TheProcess().messages);
  }
  // Asking must not make a thread remember that it never failed.
  return own_messages == nullptr ? nullptr : TakeMessage(*own_messages);
}

std::string NewestMessage() {
  const auto newest = [](const MessageList& list) {
    return list.empty() ? std::string() : list.Newest(0).failure().Text();
  };
  if (ToProcess()) {
    std::lock_guard lock(TheProcess().mutex);
    return newest(TheProcess().messages.list);
  }
  return own_messages == nullptr ? "" : newest(own_messages->list);
}

aclError PeekLastError() { return last_error; }

aclError TakeLastError() { return std::exchange(last_error, 0); }

}  // namespace flashacl::acl
