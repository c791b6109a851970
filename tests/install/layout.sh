#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The prefix has the shape of CANN's toolkit, is one library under many names,
# and can be moved: no link and no text in it is absolute.
# labels: prefix
set -euo pipefail
cd "$FLASHACL_PREFIX"
failed=0
complain() {
  echo "layout: $*" >&2
  failed=1
}

headers=(acl/acl.h acl/acl_rt.h acl/acl_base.h aclnn/acl_meta.h
         aclnn/aclnn_base.h aclnn/opdev/fp16_t.h
         aclnnop/aclnn_flash_attention_score.h
         aclnnop/aclnn_prompt_flash_attention.h hccl/hccl.h
         hccl/hccl_types.h mstx/ms_tools_ext.h securec.h)
for folder in include x86_64-linux/include aarch64-linux/include \
    runtime/include acllib/include fwkacllib/include compiler/include \
    opp/built-in/op_impl/ai_core/tbe/op_api/include; do
  for header in "${headers[@]}"; do
    [ -f "$folder/$header" ] || complain "no $folder/$header"
  done
done

for folder in lib64 lib64/stub devlib x86_64-linux/lib64 aarch64-linux/lib64 \
    runtime/lib64 runtime/lib64/stub acllib/lib64 acllib/lib64/stub \
    fwkacllib/lib64 compiler/lib64 opp/lib64 \
    opp/built-in/op_impl/ai_core/tbe/op_api/lib/linux/x86_64; do
  for name in ascendcl acl_rt nnopbase opapi opapi_transformer opapi_math \
      c_sec cust_opapi ms_tools_ext; do
    library=$folder/lib$name.so
    [ "$library" -ef lib64/libascendcl.so ] || complain "$library is another"
  done
done

# Names that adapters link or open; and those whose file alone would make an
# adapter believe in functions that are not there.
for name in acl_op_compiler acl_tdt_channel acl_tdt_queue ascend_dump \
    ge_runner graph hccl hccl_fwk msprofiler opapi_nn platform profapi runtime; do
  [ "lib64/lib$name.so" -ef lib64/libascendcl.so ] ||
    complain "lib64/lib$name.so is not there"
done
for name in mspti acl_rt_impl ascend_hal dcmi; do
  [ ! -e "lib64/lib$name.so" ] || complain "lib64/lib$name.so is there"
done

custom=opp/vendors/custom_transformer/op_api
for file in include/aclnn_flash_attention_score.h lib/libcust_opapi.so \
    include/aclnnop/aclnn_flash_attention_score.h; do
  [ -f "$custom/$file" ] || complain "no $custom/$file"
done
for file in set_env.sh bin/setenv.bash bin/flashacl \
    lib/cmake/flashacl/flashaclConfig.cmake include/experiment; do
  [ -e "$file" ] || complain "no $file"
done
for package in runtime compiler toolkit opp opp_kernel hccl driver cann; do
  grep -q '^version=[0-9]' "share/info/$package/version.info" ||
    complain "no version of $package"
done

# Whose code is in the library and the tool, and on what terms.
notices=share/doc/flashacl/THIRD_PARTY_NOTICES
for words in 'Niels Lohmann' 'University of Cincinnati' 'Victor Zverovich' \
    'Google LLC' 'Permission is hereby granted' \
    'Redistributions in binary form must reproduce' \
    'PNG Reference Library License' 'Jean-loup Gailly' 'Gilles Vollant' \
    'GCC RUNTIME LIBRARY EXCEPTION'; do
  grep -qF "$words" "$notices" || complain "no '$words' in $notices"
done
grep -qF 'Apache License' share/doc/flashacl/LICENSE || complain "no LICENSE"
for page in README.md CHANGELOG.md docs/notation.md docs/zh/README.md; do
  [ -s "share/doc/flashacl/$page" ] || complain "no share/doc/flashacl/$page"
done

# What CANN has is one file; the judge of results is another.
real=$(find . -name '*.so*' -type f | sort | tr '\n' ' ')
[ "$real" = "./lib64/libascendcl.so ./lib64/libflashacl_check.so " ] ||
  complain "other files than expected: $real"
while read -r link; do
  [ -e "$link" ] || complain "$link leads nowhere"
  case $(readlink "$link") in /*) complain "$link is absolute" ;; esac
done < <(find . -type l)
# A path begins after what ends a word: a checkout may be /flashacl, which is in
# many words.
paths=$(printf '%s|%s' "$FLASHACL_SOURCE" "$FLASHACL_PREFIX" |
        sed 's/[][\.*^$+?(){}]/\\&/g')
before="(^|-[IL]|[[:space:]\"'\`=:;(,<>])" after='(/|[^[:alnum:]_-]|$)'
found=$(grep -rlE -e "$before($paths)$after" --exclude-dir=lib64 . || true)
[ -z "$found" ] || complain "paths of the build in: $found"

dynamic=$(objdump -p lib64/libascendcl.so)
grep -q 'SONAME *libascendcl.so$' <<<"$dynamic" || complain "no SONAME"
grep -q 'RUNPATH *$ORIGIN$' <<<"$dynamic" || complain "library: no RUNPATH"
# Where a static of a function is being made while another thread forks, the
# child would wait for that thread: src/base/once.h makes ours.
for library in lib64/libascendcl.so lib64/libflashacl_check.so; do
  undefined=$(nm -D --undefined-only "$library")
  ! grep -q __cxa_guard_acquire <<<"$undefined" ||
    complain "$library: a function's static that is not constinit"
done
dynamic=$(objdump -p bin/flashacl)
grep -q 'RUNPATH *$ORIGIN/../lib64$' <<<"$dynamic" ||
  complain "flashacl: no RUNPATH"
exit "$failed"
