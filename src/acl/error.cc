// SPDX-License-Identifier: Apache-2.0
#include "acl/error.h"

#include <pthread.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <ctime>
#include <mutex>

namespace flashacl::acl {
namespace {

struct Message {
  aclError code = 0;
  Title title = Title::kRuntime;
  timeval time{};
  std::string text;
  const char* fixed = nullptr;  // instead of `text`

  std::string_view view() const {
    if (fixed != nullptr) return fixed;
    return text;  // in a ?: both would become a temporary string
  }
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

// YYYY-MM-DD-HH:MM:SS.mmm.uuu, local time.
std::string TimeText(const timeval& time) {
  std::tm local{};
  localtime_r(&time.tv_sec, &local);
  return Str("{:04}-{:02}-{:02}-{:02}:{:02}:{:02}.{:03}.{:03}",
             local.tm_year + 1900, local.tm_mon + 1, local.tm_mday,
             local.tm_hour, local.tm_min, local.tm_sec, time.tv_usec / 1000,
             time.tv_usec % 1000);
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

  std::string Layout() const {
    const Message& newest = Newest(0);
    std::string all;
    if (newest.title == Title::kAclnnInner) {
      all =
          Str("EZ9999: Internal error!\nEZ9999[PID: {}] {} {}:  {}\n", getpid(),
              TimeText(newest.time), Text(newest.title), newest.view());
    } else {
      all = Str("[PID: {}] {} {}: {}\n", getpid(), TimeText(newest.time),
                Text(newest.title), newest.view());
    }
    if (count_ > 1) all += "TraceBack (most recent call last):\n";
    for (size_t age = 1; age < count_; ++age) {
      all += Str("        {}\n", Newest(age).view());
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
  std::string returned;  // what the last TakeMessages points to
};

struct ProcessMessages {
  std::mutex mutex;
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
  static ProcessMessages& process = *new ProcessMessages;
  return process;
}

void DeleteOwnMessages(void* messages) {
  own_messages = nullptr;
  delete static_cast<Messages*>(messages);
}

// Null if there is no memory.
Messages* OwnMessages() {
  if (own_messages != nullptr) return own_messages;
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    pthread_key_create(&made, DeleteOwnMessages);
    return made;
  }();
  own_messages = new (std::nothrow) Messages;
  pthread_setspecific(key, own_messages);
  return own_messages;
}

bool ToProcess() { return to_process.load() && !keeps_messages; }

aclError Queue(Message message) noexcept {
  const aclError code = message.code;
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

const char* Take(Messages& messages) {
  if (messages.list.empty()) return nullptr;
  messages.returned = messages.list.Layout();
  messages.list.Clear();
  return messages.returned.c_str();
}

}  // namespace

aclError Fail(aclError code, Title title, std::string text) noexcept {
  return Queue(Message{code, title, {}, std::move(text), nullptr});
}

aclError FailFixed(aclError code, Title title, const char* text) noexcept {
  return Queue(Message{code, title, {}, {}, text});
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
      if (code / 1000 == 561) title = Title::kAclnnInner;
      break;
    case Code::kOutOfMemory:
    case Code::kRuntime:
      code = 361001;
      title = Title::kAclnnRuntime;
      break;
    case Code::kInternal:
      code = 561000;
      title = Title::kAclnnInner;
      break;
  }
  return Contain([&] { return Fail(code, title, status.message()); },
                 [&](bool) {
                   return FailFixed(code, title, "no memory for the message");
                 });
}

void KeepMessagesOnThisThread() { keeps_messages = true; }

Failure TakeFailure(aclError code) {
  Failure failure{code, Title::kRuntime, {}};
  Messages* own = OwnMessages();
  if (own == nullptr || own->list.empty()) {
    failure.text = Str("a task failed with code {}", code);
    return failure;
  }
  const Message& newest = own->list.Newest(0);
  failure.title = newest.title;
  failure.text = newest.view();
  own->list.Clear();
  return failure;
}

void SetProcessMessages(bool process) { to_process.store(process); }

const char* TakeMessages() {
  if (ToProcess()) {
    std::lock_guard lock(TheProcess().mutex);
    return Take(TheProcess().messages);
  }
  // Asking must not make a thread remember that it never failed.
  return own_messages == nullptr ? nullptr : Take(*own_messages);
}

aclError PeekLastError() { return last_error; }

aclError TakeLastError() { return std::exchange(last_error, 0); }

}  // namespace flashacl::acl
