# SPDX-License-Identifier: Apache-2.0
# Cross-building for 64-bit ARM with Debian's g++-aarch64-linux-gnu, against the
# libraries that scripts/arm_libraries.sh put together. What is built runs under
# qemu-user; QEMU_CPU in the environment says on which processor.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
get_filename_component(arm_libraries
  "${CMAKE_CURRENT_LIST_DIR}/../build/arm-libraries" ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH "${arm_libraries}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind IN ITEMS LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
# Libraries of libraries are not found by a program's own paths.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu
    -E "LD_LIBRARY_PATH=${arm_libraries}/usr/lib/aarch64-linux-gnu")
