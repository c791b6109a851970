# SPDX-License-Identifier: Apache-2.0
"""entry_points.py FOLDER HEADER...: what recording and replaying need to know
of the operators' functions, from their declarations.

  plan_names.h        names under which src/ops defines every phase one
  entry_points.cc     the functions that programs call: these, recorded
  entry_points.inc    a line for each, for who calls them by name
"""
import pathlib
import re
import sys

PLAN = re.compile(r"\b(aclnn\w+?)(Get(?:Max)?WorkspaceSize)\(([^)]*)\);")


def parameters_of(text):
    """[(type, name)]"""
    pairs = []
    for part in text.split(","):
        match = re.fullmatch(r"(.*?)(\w+)", " ".join(part.split()))
        pairs.append((match[1].strip(), match[2]))
    return pairs


def entry_points(headers):
    """[(operator, function, parameters)] in order of declaration"""
    found = []
    for header in headers:
        text = re.sub(r"//[^\n]*|/\*.*?\*/", "", header.read_text(),
                      flags=re.DOTALL)
        for operator, suffix, parameters in PLAN.findall(text):
            found.append((operator, operator + suffix,
                          parameters_of(parameters)))
    return found


def wrapper(operator, function, parameters):
    declared = ", ".join(" ".join(pair) for pair in parameters)
    names = [name for _, name in parameters]
    passed = ", ".join(f'{{"{name}", {name}}}' for name in names[:-2])
    call = f"Plan_{function}({', '.join(names)})"
    return f"""
extern "C" UNCHECKED aclnnStatus Plan_{function}({declared});
extern "C" UNCHECKED aclnnStatus {function}({declared}) {{
  if (!flashacl::acl::RecordsCalls()) return {call};
  const flashacl::acl::Passing passed[] = {{{passed}}};
  flashacl::acl::PlanRecord record("{operator}", "{function}", passed);
  return record.Planned({call}, {names[-2]}, {names[-1]});
}}
"""


def write(path, text):
    """Leaves what is the same: nothing is compiled again."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main(folder, headers):
    found = entry_points(headers)
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "plan_names.h",
          "#pragma once\n" +
          "".join(f"#define {function} Plan_{function}\n"
                  for _, function, _ in found))
    includes = "".join(f'#include "aclnnop/{h.name}"\n' for h in headers)
    # Enumerations may hold any number on their way.
    unchecked = ('#define UNCHECKED __attribute__((no_sanitize("undefined"), '
                 'visibility("default")))\n')
    write(folder / "entry_points.cc",
          '#include "acl/call_recorder.h"\n' + includes + unchecked +
          "".join(wrapper(*one) for one in found))
    write(folder / "entry_points.inc",
          "".join(f"ENTRY_POINT({operator}, {function})\n"
                  for operator, function, _ in found))
    write(folder / "operator_headers.h", "#pragma once\n" + includes)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]),
         [pathlib.Path(name) for name in sys.argv[2:]])
