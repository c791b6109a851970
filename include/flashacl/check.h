/* SPDX-License-Identifier: Apache-2.0 */
/* Who is right, inside of a test: a result against the fp64 answer to the same
 * tensors, and what a wrong one got wrong. As the command flashacl check, whose
 * page is docs/howto/who-is-right.md. Link libflashacl_check; it needs no
 * device and no other library of FlashACL. Any number of threads may call. */
#ifndef FLASHACL_CHECK_H_
#define FLASHACL_CHECK_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A tensor on the host, dense, the last axis innermost; the caller's, and only
 * read. */
typedef struct flashaclCheckTensor {
  const char* name;  /* q, k, v, mask, dout, ...; out, max, sum and lse, or dq,
                        dk, dv, dq_rope, dk_rope, dbias, dsink */
  const char* dtype; /* f32, f16, bf16, f64, bool, i8, u8, i32, i64 */
  const int64_t* dims; /* dimCount of them */
  size_t dimCount;
  const void* data;
} flashaclCheckTensor;

typedef enum flashaclCheckVerdict {
  FLASHACL_CHECK_RIGHT = 0,
  FLASHACL_CHECK_WRONG = 1,
  FLASHACL_CHECK_MISTAKE = 2 /* the question makes no sense: text says why */
} flashaclCheckVerdict;

/* Judges the results among the tensors. line: a problem, e.g. "fwd bf16 h=8/2
 * d=64 q=2x9 k=2x9 causal"; with stats it has max and sum, what softmax leaves
 * of rows, with lse log-sum-exps, f32 in the shapes that operators give them;
 * with grad:qkvb dbias, of the shape of bias, and with sinks dsink, of heads.
 * layout: BSND, BNSD, SBND, BSH, SBH, TND, NTD or TH, or NULL where shapes say
 * it; :rows or :blocks after it is the order of max and sum of packed
 * sequences, where it counts. text: gets the report, ended by a zero and cut
 * to textSize bytes; NULL with 0 is allowed. */
flashaclCheckVerdict flashaclCheck(const char* line, const char* layout,
                                   const flashaclCheckTensor* tensors,
                                   size_t tensorCount, char* text,
                                   size_t textSize);

#ifdef __cplusplus
}

#include <string>
#include <vector>

namespace flashacl {

/* The same in C++: a tensor that remembers its shape, and a report. */
struct CheckTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> dims;
  const void* data;
};

struct CheckReport {
  flashaclCheckVerdict verdict;
  std::string text;

  bool right() const { return verdict == FLASHACL_CHECK_RIGHT; }
};

inline CheckReport Check(const std::string& line,
                         const std::vector<CheckTensor>& tensors,
                         const std::string& layout = std::string()) {
  std::vector<flashaclCheckTensor> plain;
  for (const CheckTensor& one : tensors) {
    plain.push_back({one.name.c_str(), one.dtype.c_str(), one.dims.data(),
                     one.dims.size(), one.data});
  }
  std::vector<char> text(1 << 16);
  CheckReport report;
  report.verdict =
      flashaclCheck(line.c_str(), layout.empty() ? nullptr : layout.c_str(),
                    plain.data(), plain.size(), text.data(), text.size());
  report.text = text.data();
  return report;
}

}  // namespace flashacl
#endif

#endif  // FLASHACL_CHECK_H_
