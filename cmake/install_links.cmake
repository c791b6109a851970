# SPDX-License-Identifier: Apache-2.0
# Run when installing: the other names of the library and of the folders. All
# links are relative, so that the prefix can be moved.
# Absolute, as headers are looked for by names relative to it.
get_filename_component(prefix "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}" ABSOLUTE)

# link(FROM TO): PREFIX/FROM becomes a link to TO, which is seen from FROM.
function(link from to)
  get_filename_component(folder "${prefix}/${from}" DIRECTORY)
  file(MAKE_DIRECTORY "${folder}")
  file(REMOVE "${prefix}/${from}")
  file(CREATE_LINK "${to}" "${prefix}/${from}" SYMBOLIC)
endfunction()

# Names that CANN programs link, and names that adapters open or look for.
foreach(name
    acl_rt nnopbase opapi opapi_transformer opapi_math opapi_nn c_sec
    cust_opapi acl_op_compiler acl_tdt_channel acl_tdt_queue ascend_dump
    ge_runner graph hccl hccl_fwk ms_tools_ext msprofiler platform profapi
    runtime)
  link(lib64/lib${name}.so libascendcl.so)
endforeach()

link(lib64/stub .)
link(devlib lib64)
file(MAKE_DIRECTORY "${prefix}/include/experiment")

# The same headers and libraries under each folder that has had them.
foreach(folder x86_64-linux aarch64-linux runtime acllib fwkacllib compiler)
  link(${folder}/include ../include)
  link(${folder}/lib64 ../lib64)
endforeach()
link(x86_64-linux/devlib lib64)
link(aarch64-linux/devlib lib64)

link(opp/lib64 ../lib64)
set(single_op opp/built-in/op_impl/ai_core/tbe/op_api)
link(${single_op}/include ../../../../../../include)
foreach(arch x86_64 aarch64)
  link(${single_op}/lib/linux/${arch} ../../../../../../../../lib64)
endforeach()

# A custom operator package has operator headers both directly in its include
# folder and under aclnnop/.
set(custom opp/vendors/custom_transformer/op_api)
link(${custom}/lib/libcust_opapi.so ../../../../../lib64/libascendcl.so)
file(GLOB headers RELATIVE "${prefix}/include/aclnnop"
     "${prefix}/include/aclnnop/*.h")
foreach(header IN LISTS headers)
  link(${custom}/include/${header} ../../../../../include/aclnnop/${header})
endforeach()
link(${custom}/include/aclnnop ../../../../../include/aclnnop)

if(FLASHACL_DEFAULT_PATHS)
  # Where CANN programs look when no variable says otherwise. What is there
  # already belongs to someone else.
  foreach(path cann ascend-toolkit/latest)
    set(path "$ENV{DESTDIR}/usr/local/Ascend/${path}")
    if(EXISTS "${path}" OR IS_SYMLINK "${path}")
      message(STATUS "Left as it is: ${path}")
    else()
      get_filename_component(folder "${path}" DIRECTORY)
      file(MAKE_DIRECTORY "${folder}")
      file(CREATE_LINK "${CMAKE_INSTALL_PREFIX}" "${path}" SYMBOLIC)
    endif()
  endforeach()
endif()
