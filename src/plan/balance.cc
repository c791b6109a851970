// SPDX-License-Identifier: Apache-2.0
// Adds up what workers did.
#include "plan/balance.h"

namespace flashacl {

Balance Rehearsal::result() const {
  Balance balance;
  balance.workers = static_cast<int64_t>(workers_.size());
  balance.pieces = pieces_;
  balance.elapsed = elapsed();
  balance.combining = combining_;
  for (const Worker& worker : workers_) {
    balance.work += worker.work;
    balance.busiest = std::max(balance.busiest, worker.work);
  }
  return balance;
}

}  // namespace flashacl
