// SPDX-License-Identifier: Apache-2.0
// Several devices beside each other: whose memory they reach, and the numbers
// they go by. All devices are this machine, so every one reaches all memory.
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "acl/acl_rt.h"
#include "acl/context.h"
#include "acl/device.h"
#include "acl/error.h"
#include "base/fork.h"
#include "base/once.h"

namespace flashacl::acl {
namespace {

// Pairs (device, peer) that were enabled.
struct Peers {
  ProcessMutex mutex;
  std::set<std::pair<int32_t, int32_t>> enabled;
};

Peers& ThePeers() {
  static constinit MadeOnce<Peers> peers;
  return *peers;
}

aclError FailPeer(aclError code, std::string_view function, int32_t peer) {
  return FailValue(code, function, "peerDeviceId", std::to_string(peer),
                   "another device");
}

aclError CanAccess(int32_t* can, int32_t device, int32_t peer) {
  constexpr std::string_view kFunction = "aclrtDeviceCanAccessPeer";
  if (can == nullptr) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, Title::kNullPointer,
                Str("{} failed because canAccessPeer cannot be a NULL pointer.",
                    kFunction));
  }
  if (device == peer) return FailPeer(ACL_ERROR_INVALID_PARAM, kFunction, peer);
  if (const aclError error = RequireDevice(kFunction, device)) return error;
  if (const aclError error = RequireDevice(kFunction, peer)) return error;
  *can = 1;
  return ACL_SUCCESS;
}

// The current device, once `peer` is known to be another one.
aclError CheckPeer(std::string_view function, int32_t peer, int32_t* device) {
  const std::shared_ptr<Context> context = CurrentContext();
  if (context == nullptr) return RequireContext(function);
  if (context->device() == peer) {
    return FailPeer(ACL_ERROR_INVALID_PARAM, function, peer);
  }
  *device = context->device();
  return RequireDevice(function, peer);
}

aclError EnablePeer(int32_t peer, uint32_t flags) {
  constexpr std::string_view kFunction = "aclrtDeviceEnablePeerAccess";
  if (flags != 0) {
    return FailValue(ACL_ERROR_FEATURE_UNSUPPORTED, kFunction, "flags",
                     std::to_string(flags), "0");
  }
  int32_t device = 0;
  const aclError error = CheckPeer(kFunction, peer, &device);
  if (error != 0) return error;
  Peers& peers = ThePeers();
  std::lock_guard lock(peers.mutex);
  peers.enabled.emplace(device, peer);
  return ACL_SUCCESS;
}

aclError DisablePeer(int32_t peer) {
  int32_t device = 0;
  const aclError error =
      CheckPeer("aclrtDeviceDisablePeerAccess", peer, &device);
  if (error != 0) return error;
  Peers& peers = ThePeers();
  std::lock_guard lock(peers.mutex);
  peers.enabled.erase({device, peer});
  return ACL_SUCCESS;
}

aclError PeerStatus(int32_t device, int32_t peer, int32_t* status) {
  constexpr std::string_view kFunction = "aclrtDevicePeerAccessStatus";
  if (status == nullptr) return FailNull(kFunction, "status");
  for (const int32_t id : {device, peer}) {
    if (0 <= id && id < DeviceCount()) continue;
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kFunction,
                     id == device ? "deviceId" : "peerDeviceId",
                     std::to_string(id), Str("[0, {})", DeviceCount()));
  }
  if (device == peer) {
    return FailPeer(ACL_ERROR_RT_PARAM_INVALID, kFunction, peer);
  }
  Peers& peers = ThePeers();
  std::lock_guard lock(peers.mutex);
  *status = peers.enabled.count({device, peer}) > 0 ? 1 : 0;
  return ACL_SUCCESS;
}

// All are in one machine, and so as near as devices can be.
aclError Topology(uint32_t device, uint32_t other, uint64_t* value) {
  constexpr std::string_view kFunction = "aclrtGetDevicesTopo";
  if (value == nullptr) return FailNull(kFunction, "value");
  if (const aclError error = RequireDevice(kFunction, device)) return error;
  if (const aclError error = RequireDevice(kFunction, other)) return error;
  *value = ACL_RT_DEVS_TOPOLOGY_HCCS;
  return ACL_SUCCESS;
}

// Users count the visible devices from 0; logical and physical numbers are
// those of ASCEND_RT_VISIBLE_DEVICES.
aclError FromUser(std::string_view function, int32_t user, int32_t* other) {
  if (other == nullptr) return FailNull(function, "the answer");
  const aclError error = RequireDevice(function, user);
  if (error != 0) return error;
  *other = VisibleDevices()[static_cast<size_t>(user)];
  return ACL_SUCCESS;
}

aclError ToUser(std::string_view function, int32_t other, int32_t* user) {
  if (user == nullptr) return FailNull(function, "the answer");
  for (int32_t i = 0; i < DeviceCount(); ++i) {
    if (VisibleDevices()[static_cast<size_t>(i)] != other) continue;
    *user = i;
    return ACL_SUCCESS;
  }
  return FailValue(ACL_ERROR_RT_INVALID_DEVICEID, function, "device id",
                   std::to_string(other), "that of a visible device");
}

aclError Same(std::string_view function, int32_t one, int32_t* other) {
  int32_t user = 0;
  if (other == nullptr) return FailNull(function, "the answer");
  const aclError error = ToUser(function, one, &user);
  if (error == 0) *other = one;
  return error;
}

}  // namespace
}  // namespace flashacl::acl

namespace acl = flashacl::acl;

extern "C" {

aclError aclrtDeviceCanAccessPeer(int32_t* canAccessPeer, int32_t deviceId,
                                  int32_t peerDeviceId) {
  return acl::GuardRuntime(
      [&] { return acl::CanAccess(canAccessPeer, deviceId, peerDeviceId); });
}

aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags) {
  return acl::GuardRuntime(
      [&] { return acl::EnablePeer(peerDeviceId, flags); });
}

aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId) {
  return acl::GuardRuntime([&] { return acl::DisablePeer(peerDeviceId); });
}

aclError aclrtDevicePeerAccessStatus(int32_t deviceId, int32_t peerDeviceId,
                                     int32_t* status) {
  return acl::GuardRuntime(
      [&] { return acl::PeerStatus(deviceId, peerDeviceId, status); });
}

aclError aclrtGetDevicesTopo(uint32_t deviceId, uint32_t otherDeviceId,
                             uint64_t* value) {
  return acl::GuardRuntime(
      [&] { return acl::Topology(deviceId, otherDeviceId, value); });
}

aclError aclrtGetLogicDevIdByUserDevId(const int32_t userDevid,
                                       int32_t* const logicDevId) {
  return acl::GuardRuntime([&] {
    return acl::FromUser("aclrtGetLogicDevIdByUserDevId", userDevid,
                         logicDevId);
  });
}

aclError aclrtGetUserDevIdByLogicDevId(const int32_t logicDevId,
                                       int32_t* const userDevid) {
  return acl::GuardRuntime([&] {
    return acl::ToUser("aclrtGetUserDevIdByLogicDevId", logicDevId, userDevid);
  });
}

aclError aclrtGetPhyDevIdByLogicDevId(const int32_t logicDevId,
                                      int32_t* const phyDevId) {
  return acl::GuardRuntime([&] {
    return acl::Same("aclrtGetPhyDevIdByLogicDevId", logicDevId, phyDevId);
  });
}

aclError aclrtGetLogicDevIdByPhyDevId(const int32_t phyDevId,
                                      int32_t* const logicDevId) {
  return acl::GuardRuntime([&] {
    return acl::Same("aclrtGetLogicDevIdByPhyDevId", phyDevId, logicDevId);
  });
}

aclError aclrtGetPhyDevIdByUserDevId(const int32_t userDevid,
                                     int32_t* const phyDevId) {
  return acl::GuardRuntime([&] {
    return acl::FromUser("aclrtGetPhyDevIdByUserDevId", userDevid, phyDevId);
  });
}

aclError aclrtGetUserDevIdByPhyDevId(const int32_t phyDevId,
                                     int32_t* const userDevid) {
  return acl::GuardRuntime([&] {
    return acl::ToUser("aclrtGetUserDevIdByPhyDevId", phyDevId, userDevid);
  });
}

}  // extern "C"
