# SPDX-License-Identifier: Apache-2.0
# Writes the commit of SOURCES into the header FILE whenever it is another one:
# run by every build, as only then it is true. Empty where git knows nothing.
execute_process(
  COMMAND git -C "${SOURCES}" describe --always --dirty --abbrev=12 --exclude "*"
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
file(CONFIGURE OUTPUT "${FILE}"
     CONTENT "#define FLASHACL_COMMIT \"${commit}\"\n")
