# SPDX-License-Identifier: Apache-2.0
# Read by CPack for each kind of package.
if(CPACK_GENERATOR STREQUAL DEB)
  set(CPACK_PACKAGING_INSTALL_PREFIX /opt/flashacl)
endif()
