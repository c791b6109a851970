// SPDX-License-Identifier: Apache-2.0
// Line by line, word by word.
#include "tools/flashacl/wrap.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace flashacl::tool {
namespace {

void WrapLine(std::string_view line, size_t columns, size_t hanging,
              std::string& text) {
  const size_t indent = std::min(line.find_first_not_of(' '), line.size());
  const std::string margin(indent + hanging, ' ');
  // Deeply indented text gets more than there is.
  constexpr size_t kLeastRoom = 20;
  bool first = true;
  while (true) {
    const size_t before = first ? 0 : margin.size();
    const size_t room = std::max(columns, before + kLeastRoom) - before;
    if (line.size() <= room) break;
    const size_t words = first ? indent : 0;
    size_t end = line.rfind(' ', room);
    if (end == line.npos || end < words) end = line.find(' ', room);
    const size_t next = line.find_first_not_of(' ', end);
    if (end == line.npos || next == line.npos) break;
    if (!first) text += margin;
    text += line.substr(0, line.find_last_not_of(' ', end) + 1);
    text += '\n';
    line.remove_prefix(next);
    first = false;
  }
  if (!first) text += margin;
  text += line;
}

int ColumnsOf(int file) {
  winsize size = {};
  return ioctl(file, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

int TerminalColumns() {
  constexpr int kLeast = 40;
  constexpr int kUsual = 80;
  int columns = 0;
  if (const char* said = std::getenv("COLUMNS")) columns = std::atoi(said);
  for (const int file : {STDOUT_FILENO, STDERR_FILENO}) {
    if (columns <= 0) columns = ColumnsOf(file);
  }
  return std::max(kLeast, columns <= 0 ? kUsual : columns);
}

std::string Wrap(std::string_view text, int columns, int hanging) {
  std::string wrapped;
  while (true) {
    const size_t end = text.find('\n');
    WrapLine(text.substr(0, end), static_cast<size_t>(columns),
             static_cast<size_t>(hanging), wrapped);
    if (end == text.npos) return wrapped;
    wrapped += '\n';
    text.remove_prefix(end + 1);
  }
}

}  // namespace flashacl::tool
