# SPDX-License-Identifier: Apache-2.0
# Installs BUILD into an empty PREFIX, so that no file of an earlier version
# can make a test pass.
file(REMOVE_RECURSE "${PREFIX}")
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${BUILD}"
                        --prefix "${PREFIX}"
                OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
