// SPDX-License-Identifier: Apache-2.0
// Text as wide as the terminal is.
#pragma once

#include <string>
#include <string_view>

namespace flashacl::tool {

// What COLUMNS says, else the terminal of stdout or stderr, else 80; at least
// 40.
int TerminalColumns();

// `text` with its lines broken at blanks so that none has more than `columns`
// characters, where words allow. What a line goes on with is indented like its
// beginning, and by `hanging` more.
std::string Wrap(std::string_view text, int columns, int hanging = 0);

}  // namespace flashacl::tool
