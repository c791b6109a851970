# SPDX-License-Identifier: Apache-2.0
# Installs BUILD into an empty PREFIX, so that no file of an earlier version
# can make a test pass. By a relative name, as `make run` does.
file(REMOVE_RECURSE "${PREFIX}")
get_filename_component(folder "${PREFIX}" DIRECTORY)
get_filename_component(name "${PREFIX}" NAME)
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${BUILD}"
                        --prefix "${name}"
                WORKING_DIRECTORY "${folder}"
                OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
