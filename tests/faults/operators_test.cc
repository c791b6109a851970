// SPDX-License-Identifier: Apache-2.0
// Whatever fails while an operator is planned, launched and run: the call says
// so, or the result is right; the next call works; nothing leaks or hangs.
#include <gtest/gtest.h>

#include <string>

#include "acl/acl.h"
#include "backends.h"
#include "base/str.h"
#include "tests/faults/injector.h"
#include "tests/faults/subject.h"
#include "tests/faults/watchdog.h"
#include "tests/testing/operator_call.h"
#include "tests/testing/runtime.h"

namespace flashacl::testing {
namespace {

// The law, for one fault; false once the call makes fewer such calls than `n`.
bool SurvivesFault(Subject& subject, Fault fault, int64_t n, bool lasting) {
  subject.Fill();
  Subject::Answer answer;
  int64_t failed = 0;
  {
    const Injected injected(fault, n, lasting);
    answer = subject.RunAsItIs();
    failed = injected.failed();
  }
  EXPECT_EQ(answer.said, answer.failed());
  if (!answer.failed()) {
    EXPECT_TRUE(subject.IsRight()) << "no error, and a wrong result";
  } else if (answer.synchronized == 0) {
    EXPECT_TRUE(subject.IsUntouched()) << "refused, and outputs are written";
  }
  EXPECT_EQ(subject.Run(), Subject::Answer()) << "the next call";
  EXPECT_TRUE(subject.IsRight()) << "after the next call";
  return failed > 0;
}

void TryAllFaults(Subject& subject, const char* name, Fault fault) {
  for (const bool lasting : {false, true}) {
    for (int64_t n = 1;; ++n) {
      const std::string what =
          Str("{}: fault {} of kind {}{}", name, n, static_cast<int>(fault),
              lasting ? ", and all after it" : "");
      SCOPED_TRACE(what);
      const Watched watched(what);
      if (!SurvivesFault(subject, fault, n, lasting)) break;
      if (::testing::Test::HasFailure()) return;
    }
  }
}

class Operators : public RuntimeTest,
                  public ::testing::WithParamInterface<OperatorCall> {};

TEST_P(Operators, FailOrAreRightWhateverAllocationFails) {
  Subject subject(GetParam());
  for (const int workers : {1, 2, 5}) {
    subject.TakeNewThreads(workers);
    EXPECT_EQ(subject.Run(), Subject::Answer());  // they have started
    EXPECT_FALSE(Leaks(
        [&] { TryAllFaults(subject, GetParam().name, Fault::kAllocation); }));
  }
  subject.TakeNewThreads(0);
  RecordProperty("faults", std::to_string(InjectedFaults()));
}

// The stream's thread and the workers, which are those of a new stream and of a
// new number of workers each time.
TEST_P(Operators, FailOrAreRightWhateverThreadCannotBeStarted) {
  Subject subject(GetParam());
  for (const bool lasting : {false, true}) {
    for (int64_t n = 1;; ++n) {
      SCOPED_TRACE(Str("thread {}{}", n, lasting ? ", and all after it" : ""));
      const Watched watched(GetParam().name);
      subject.TakeNewThreads(4);
      if (!SurvivesFault(subject, Fault::kThread, n, lasting)) break;
      if (HasFailure()) return;
    }
  }
  subject.TakeNewThreads(0);
}

INSTANTIATE_TEST_SUITE_P(Every, Operators,
                         ::testing::ValuesIn(AllOperatorCalls()),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace flashacl::testing
