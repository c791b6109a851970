// SPDX-License-Identifier: Apache-2.0
// The tools extension: marks and ranges of the program on threads and streams,
// in domains.
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "acl/error.h"
#include "acl/profile/ranges.h"
#include "base/fork.h"
#include "base/once.h"
#include "mstx/ms_tools_ext.h"

// What the handle points to; programs never look there.
struct mstxDomain {
  std::string name;
};

namespace flashacl::acl::profile {
namespace {

struct Domains {
  ProcessMutex mutex;
  std::vector<std::unique_ptr<mstxDomain>> all;
};

Domains& TheDomains() {
  static constinit MadeOnce<Domains> domains;
  return *domains;
}

aclError CreateDomain(const char* name, mstxDomain** made) {
  if (name == nullptr) return FailNull("mstxDomainCreateA", "name");
  Domains& domains = TheDomains();
  std::lock_guard lock(domains.mutex);
  for (const auto& domain : domains.all) {
    if (domain->name == name) *made = domain.get();
  }
  if (*made != nullptr) return ACL_SUCCESS;
  auto fresh = std::make_unique<mstxDomain>(mstxDomain{name});
  domains.all.push_back(std::move(fresh));
  *made = domains.all.back().get();
  return ACL_SUCCESS;
}

aclError CheckDomain(std::string_view function, const mstxDomain* domain) {
  if (domain == nullptr) return ACL_SUCCESS;
  Domains& domains = TheDomains();
  std::lock_guard lock(domains.mutex);
  for (const auto& known : domains.all) {
    if (known.get() == domain) return ACL_SUCCESS;
  }
  return FailValue(ACL_ERROR_INVALID_PARAM, function, "domain",
                   Str("{}", static_cast<const void*>(domain)),
                   "null, or what mstxDomainCreateA returned");
}

// What is to be said; null, and *error, if it cannot be.
std::shared_ptr<const Said> SayMark(std::string_view function,
                                    const mstxDomain* domain,
                                    const char* message, aclError* error) {
  if (message == nullptr) {
    *error = FailNull(function, "message");
    return nullptr;
  }
  *error = CheckDomain(function, domain);
  if (*error != ACL_SUCCESS) return nullptr;
  return std::make_shared<const Said>(
      Said{message, domain == nullptr ? std::string() : domain->name});
}

aclError MarkBoth(std::string_view function, const mstxDomain* domain,
                  const char* message, aclrtStream stream) {
  aclError error = ACL_SUCCESS;
  const auto said = SayMark(function, domain, message, &error);
  if (said == nullptr || !IsRecording()) return error;
  Mark(said);
  return stream == nullptr ? ACL_SUCCESS : MarkOnStream(function, said, stream);
}

OpenRanges& TheMstxRanges() {
  static constinit MadeOnce<OpenRanges> ranges;
  return ranges.Get([] { return OpenRanges(UINT64_MAX); });
}

aclError StartBoth(std::string_view function, const mstxDomain* domain,
                   const char* message, aclrtStream stream,
                   mstxRangeId* number) {
  aclError error = ACL_SUCCESS;
  const auto said = SayMark(function, domain, message, &error);
  if (said == nullptr) return error;
  std::shared_ptr<OpenRange> range;
  if (IsRecording()) {
    range = std::make_shared<OpenRange>();
    range->said = said;
    if (stream != nullptr) {
      range->stream = stream;
      range->on_stream = std::make_shared<OpenRange>();
      range->on_stream->said = said;
      error = BeginOnStream(function, range->on_stream, stream);
      if (error != ACL_SUCCESS) return error;
    }
    range->begin_ns = Now();
  }
  *number = TheMstxRanges().Add(std::move(range));
  return ACL_SUCCESS;
}

aclError EndBoth(std::string_view function, mstxRangeId number) {
  const auto range = TheMstxRanges().Take(number);
  if (range == nullptr) return ACL_SUCCESS;
  EndRange(*range);
  return range->on_stream == nullptr
             ? ACL_SUCCESS
             : EndOnStream(function, range->on_stream, range->stream);
}

mstxRangeId Started(std::string_view function, const mstxDomain* domain,
                    const char* message, aclrtStream stream) {
  mstxRangeId number = 0;
  (void)GuardRuntime(
      [&] { return StartBoth(function, domain, message, stream, &number); });
  return number;
}

}  // namespace
}  // namespace flashacl::acl::profile

namespace a = flashacl::acl;
namespace p = flashacl::acl::profile;

extern "C" {

void mstxMarkA(const char* message, aclrtStream stream) {
  (void)a::GuardRuntime(
      [&] { return p::MarkBoth("mstxMarkA", nullptr, message, stream); });
}

mstxRangeId mstxRangeStartA(const char* message, aclrtStream stream) {
  return p::Started("mstxRangeStartA", nullptr, message, stream);
}

void mstxRangeEnd(mstxRangeId id) {
  (void)a::GuardRuntime([&] { return p::EndBoth("mstxRangeEnd", id); });
}

mstxDomainHandle_t mstxDomainCreateA(const char* name) {
  mstxDomain* made = nullptr;
  (void)a::GuardRuntime([&] { return p::CreateDomain(name, &made); });
  return made;
}

void mstxDomainDestroy(mstxDomainHandle_t) {}

void mstxDomainMarkA(mstxDomainHandle_t domain, const char* message,
                     aclrtStream stream) {
  (void)a::GuardRuntime(
      [&] { return p::MarkBoth("mstxDomainMarkA", domain, message, stream); });
}

mstxRangeId mstxDomainRangeStartA(mstxDomainHandle_t domain,
                                  const char* message, aclrtStream stream) {
  return p::Started("mstxDomainRangeStartA", domain, message, stream);
}

void mstxDomainRangeEnd(mstxDomainHandle_t, mstxRangeId id) {
  (void)a::GuardRuntime([&] { return p::EndBoth("mstxDomainRangeEnd", id); });
}

mstxMemHeapHandle_t mstxMemHeapRegister(mstxDomainHandle_t,
                                        const mstxMemHeapDesc_t*) {
  return nullptr;
}

void mstxMemHeapUnregister(mstxDomainHandle_t, mstxMemHeapHandle_t) {}

void mstxMemRegionsRegister(mstxDomainHandle_t,
                            const mstxMemRegionsRegisterBatch_t*) {}

void mstxMemRegionsUnregister(mstxDomainHandle_t,
                              const mstxMemRegionsUnregisterBatch_t*) {}

}  // extern "C"
