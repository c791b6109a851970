// SPDX-License-Identifier: Apache-2.0
// What streams must know of the callbacks that threads of the program run for
// them. Streams go by their handles here, which are never reused.
#pragma once

namespace flashacl::acl {

// Whether the calling thread runs a blocking callback of the stream, and so
// must not wait for it.
bool RunsCallbackOf(const void* stream);

// When a stream is about to end: drops its callbacks that no thread will come
// for, as the one they wait for has unsubscribed or ended.
void DropAbandonedCallbacks(const void* stream) noexcept;

// When a stream has ended: so do its subscriptions.
void EndSubscriptions(const void* stream) noexcept;

}  // namespace flashacl::acl
