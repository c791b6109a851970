# SPDX-License-Identifier: Apache-2.0
# The installed prefix: the shape CANN's own toolkit has, so that programs,
# build files and scripts written for it find everything where they look.
include(CMakePackageConfigHelpers)

# The version of CANN's interfaces that we describe ourselves as.
set(FLASHACL_CANN_VERSION 8.5.0)

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME flashacl)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" DESTINATION include
        FILES_MATCHING PATTERN "*.h")
install(TARGETS ascendcl LIBRARY DESTINATION lib64)
if(TARGET flashacl_check)
  install(TARGETS flashacl_check LIBRARY DESTINATION lib64)
endif()
if(TARGET flashacl)
  install(TARGETS flashacl RUNTIME DESTINATION bin)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/bench/workloads"
          DESTINATION share/flashacl)
  install(PROGRAMS "${PROJECT_SOURCE_DIR}/bench/compare.py"
                   "${PROJECT_SOURCE_DIR}/bench/peers.py"
          DESTINATION share/flashacl)
  # The tool knows its own manual page and what completes its options; CMake
  # runs it under the emulator where it is another machine's.
  if(NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR)
    set(help_folder "${PROJECT_BINARY_DIR}/generated/help")
    set(pages "${help_folder}/flashacl.1" "${help_folder}/flashacl.bash"
              "${help_folder}/_flashacl" "${help_folder}/flashacl.fish")
    add_custom_command(
      OUTPUT ${pages}
      COMMAND ${CMAKE_COMMAND} -E make_directory "${help_folder}"
      COMMAND flashacl help man > "${help_folder}/flashacl.1"
      COMMAND flashacl help bash > "${help_folder}/flashacl.bash"
      COMMAND flashacl help zsh > "${help_folder}/_flashacl"
      COMMAND flashacl help fish > "${help_folder}/flashacl.fish"
      DEPENDS flashacl
      COMMENT "")
    add_custom_target(flashacl_help ALL DEPENDS ${pages})
    add_dependencies(product flashacl_help)
    install(FILES "${help_folder}/flashacl.1" DESTINATION share/man/man1)
    install(FILES "${help_folder}/flashacl.bash" RENAME flashacl
            DESTINATION share/bash-completion/completions)
    install(FILES "${help_folder}/_flashacl"
            DESTINATION share/zsh/site-functions)
    install(FILES "${help_folder}/flashacl.fish"
            DESTINATION share/fish/vendor_completions.d)
  endif()
endif()

install(PROGRAMS "${PROJECT_SOURCE_DIR}/cmake/set_env.sh" DESTINATION .)
install(PROGRAMS "${PROJECT_SOURCE_DIR}/cmake/setenv.bash" DESTINATION bin)
# The second holds the notices of what is compiled in from elsewhere.
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE"
              "${PROJECT_SOURCE_DIR}/THIRD_PARTY_NOTICES"
        DESTINATION share/doc/flashacl)
# As they lie in the sources, so that they find each other.
install(FILES "${PROJECT_SOURCE_DIR}/README.md"
              "${PROJECT_SOURCE_DIR}/CHANGELOG.md"
              "${PROJECT_SOURCE_DIR}/DEVELOPING.md"
        DESTINATION share/doc/flashacl)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" DESTINATION share/doc/flashacl)

write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/flashaclConfigVersion.cmake"
  COMPATIBILITY SameMajorVersion)
# In lib: where CMake searches lib64 depends on the system.
install(FILES "${PROJECT_SOURCE_DIR}/cmake/flashaclConfig.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/FindAscendCL.cmake"
              "${PROJECT_BINARY_DIR}/flashaclConfigVersion.cmake"
        DESTINATION lib/cmake/flashacl)

# For pkg-config; the prefix is where the file is.
configure_file("${PROJECT_SOURCE_DIR}/cmake/flashacl.pc.in"
               "${PROJECT_BINARY_DIR}/flashacl.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/flashacl.pc" DESTINATION lib/pkgconfig)

configure_file("${PROJECT_SOURCE_DIR}/cmake/version.info.in"
               "${PROJECT_BINARY_DIR}/version.info" @ONLY)
foreach(package cann compiler driver hccl opp opp_kernel
                runtime toolkit)
  install(FILES "${PROJECT_BINARY_DIR}/version.info"
          DESTINATION share/info/${package})
endforeach()

install(CODE "set(FLASHACL_DEFAULT_PATHS ${FLASHACL_DEFAULT_PATHS})")
install(SCRIPT "${PROJECT_SOURCE_DIR}/cmake/install_links.cmake")
