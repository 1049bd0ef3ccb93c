#!/bin/bash
# The laws of the house, read off the sources: which layer may include which, what stands at the top,
# how long a file may be and how it opens, and that no AVX code leaves the lane levels.
# Prints ok or FAIL per law and ends with `N passed, N failed`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
passed=0 failed=0

# law "SENTENCE" FUNCTION: the function prints what breaks the law; nothing printed is ok.
law() {
  local found
  found=$("$2" 2>&1)
  if [[ -z $found ]]; then
    passed=$((passed + 1))
    echo "ok $1"
  else
    failed=$((failed + 1))
    printf 'FAIL %s\n%s\n' "$1" "$(sed 's/^/  /' <<<"$found")"
  fi
}

# Files of the project that are on disk: tracked ones and new ones that git does not ignore.
files() {
  git ls-files --cached --others --exclude-standard -- "$@" | while IFS= read -r file; do
    [[ -f $file ]] && echo "$file"
  done
}
code_files() {
  files '*.cpp' '*.h' '*.def' '*.cu' '*.lua' '*.sh' '*.py' '*.txt' '.ci/*' 'scripts/start' 'scripts/test' 'tests/bench/run' |
    grep -v '^scripts/data/'
}

# What each room may include from engine/, itself aside; a part of a room that has a row of its own follows that.
declare -A below=(
  [base]=""
  [tensor]="base"
  [ops]="base tensor grad amp fuse"
  [grad]="base tensor ops amp fuse"
  [amp]="base tensor ops grad fuse"
  [fuse]="base tensor ops grad amp"
  [watch]="base tensor ops grad amp"
  [cpu]="base tensor ops grad amp fuse"
  [cuda]="base tensor ops grad amp fuse cpu"
  [dist]="base tensor ops grad amp fuse cpu"
  [dist/module]="base tensor ops grad amp fuse cpu dist cuda"
  [io]="base tensor ops grad amp fuse"
)
# A module is linked apart: an inline variable of a header would be another one there.
state_stands_in_one_file() {
  grep -nE '^(static )?inline [^()]*(=|;|\{.*\};)' $(files 'engine/*.h' | grep -vE '^engine/(cuda|cpu|watch)/') |
    grep -vE 'constexpr|operator|\bconst [A-Za-z_:]+ [a-z]|named_op'
}
layers_look_down() {
  local file room line target
  while IFS=: read -r file line; do
    room=$(cut -d/ -f2 <<<"$file")
    # What is loaded by itself may know more than the room that it stands in.
    [[ $file == engine/*/*/* && ${below[$room/$(cut -d/ -f3 <<<"$file")]+x} ]] && room+=/$(cut -d/ -f3 <<<"$file")
    target=$(sed -E 's|.*"engine/([^/"]*)/.*|\1|' <<<"$line")
    if [[ -z ${below[$room]+x} ]]; then
      echo "$file: engine/$room is no room of the house"
    elif [[ $target != "$room" && " ${below[$room]} " != *" $target "* ]]; then
      echo "$file: $line (engine/$room may include: ${below[$room]:-nothing} and itself)"
    fi
  done < <(grep -EH '^ *# *include *"engine/' $(files 'engine/*'))
  grep -EHn '^ *# *include *"(bindings|shell|tests)/' $(files 'engine/*')
  grep -EHn '^ *# *include *"(shell|tests)/' $(files 'bindings/*.cpp' 'bindings/*.h')
  # A path from the root, so that the grep above sees every include.
  grep -EHn '^ *# *include *"' $(files 'engine/*' 'bindings/*' 'shell/*') /dev/null | grep -vE '"(engine|bindings|shell)/'
}

# data<T>() is an address in a device's memory, for kernels; everybody else asks for host<T>(), which
# only a CPU tensor answers.
only_kernels_touch_devices() {
  grep -EHn '(\.|->)data<' $(files 'engine/io/*' 'bindings/*.cpp' 'bindings/*.h' 'shell/*.cpp')
}

engine_knows_no_lua() {
  grep -EHnw 'lua_State|luaL_[a-z]+|lua\.h|lua\.hpp|lauxlib\.h|lualib\.h' $(files 'engine/*')
}

# A function that a layer declares and the CPU defines would be a call upwards, and one that no other
# backend can answer. (Levels' tables and what registers itself are nobody's undefined symbol.)
below_call_no_kernel() {
  local objects
  objects=$(find build/CMakeFiles/{engine,large_ops}.dir -name '*.o' 2>/dev/null)  # of files, or of some that were joined
  [[ $objects ]] || echo "there are no objects of the engine; run scripts/test, which builds them"
  comm -12 <(nm -uC $(grep -E 'engine[/_](base|tensor|ops|grad|amp|watch)[/_]' <<<"$objects") | sed -n 's/^ *U \(tycho::\)/\1/p' | LC_ALL=C sort -u) \
    <(nm --defined-only -C $(grep -E 'engine[/_]cpu[/_]' <<<"$objects") | sed -nE 's/^[0-9a-f]+ [TBDR] //p' | LC_ALL=C sort -u)
}

# An element's address is a kernel's business; the rest asks for a value by item(t) or items(t), which
# wait for the device. Exceptions: a Value borrows the memory of lists, and the shortest way of a small
# elementwise call hands addresses to the lanes without looking; raw.cpp hands a backend an element of the host.
ops_touch_no_elements() {
  grep -EHn '(\.|->)(data|host)(<[^>]*>)?\(|\b(number|integer)_(at|of)\(|\beach_number\(' \
    $(files 'engine/ops/*' 'engine/grad/*' 'engine/amp/*' 'engine/watch/*') /dev/null |
    grep -vE '^engine/ops/(table/op\.h|table/raw\.cpp|elementwise/elementwise\.cpp):'
}

# The kernels of one level must not share inline code with the baseline.
levels_include_little() {
  local allowed='<(cstdint|cstring|cstddef|stdint\.h|string\.h|stddef\.h|immintrin\.h)>|"engine/cpu/[a-z0-9_/]+\.(h|def)"|"engine/(ops|base)/[a-z0-9_/]+\.def"'
  grep -EHn '^ *# *include' $(files 'engine/cpu/*/level/*' 'engine/cpu/lanes/*') /dev/null | grep -vE "$allowed"
}

top_level() {
  diff <(printf '%s\n' CMakeLists.txt README.md bindings engine scripts shell tests tutorials) \
    <(files | grep -v '^\.' | cut -d/ -f1 | LC_ALL=C sort -u) | grep '^[<>]'
}

files_are_short() {
  local file lines
  for file in $(code_files); do
    lines=$(wc -l <"$file")
    ((lines <= 800)) || echo "$file has $lines lines; 800 is the limit"
  done
}

# A shebang or `#pragma once` may stand first; then a comment says what the file is for.
files_open_with_a_comment() {
  local file
  for file in $(code_files); do
    grep -vE -m 1 '^(#!|#pragma once|$)' "$file" | grep -qE '^(//|--|#( |$)|/\*|"""|%)' || echo "$file does not open with a comment"
  done
}

nothing_is_left_for_later() {
  grep -EHnwI 'TO''DO|FIX''ME|XX''X|HA''CK' $(files | grep -v '^scripts/data/')
}

# 'W', 'V' and 'u' are symbols that the linker merges with those of other files: it could keep the AVX
# one for everybody. Everything else a level defines must be in its own namespace.
levels_define_only_their_own() {
  local object level found=0
  for object in $(find build/CMakeFiles -path '*/level_*.dir/*' -name '*.o' 2>/dev/null); do
    found=1
    level=$(sed -E 's|.*/level_([a-z0-9_]+)\.dir/.*|\1|' <<<"$object")
    nm -C --defined-only "$object" | grep -E ' [WVuvw] ' | sed "s|^|$object merges |"
    nm -C --defined-only --extern-only "$object" | grep -vE " [TRDB] tycho::cpu::$level::" | sed "s|^|$object exports |"
  done
  ((found)) || echo "there are no objects of the lane levels; run scripts/test, which builds them"
}

# Names of all operations: rows of .def files, and `.name = "..."` in blocks ("max.dim" is "max" again).
# (HELP(...) is a text about a row, which the compiler refuses where there is none.)
op_names() {
  {
    sed -nE '/^HELP\(/d; s/^[A-Z_0-9]+\(([a-z][a-z0-9_]*), .*/\1/p' $(files 'engine/ops/*.def') /dev/null
    sed -nE 's/^.*(\.name = |fill_op\()"([a-z][a-z0-9_.]*)".*/\2/p' $(files 'engine/ops/*.cpp') /dev/null
  } | LC_ALL=C sort
}

# A file outside engine/ops that holds many operations' names as strings, as keys, or as first arguments
# of a macro is a second list, which a new operation would have to be added to. Calls (op<"sum">) are none,
# nor is the table that leads from other libraries' names to ours (a new operation needs no row there).
one_list_of_ops() {
  local names limit=25
  names=$(op_names | cut -d. -f1 | LC_ALL=C sort -u)
  (($(wc -l <<<"$names") > limit)) || echo "only $(wc -l <<<"$names") operations were found in engine/ops"
  op_names | uniq -d | sed 's|$| is defined twice in engine/ops|'
  awk -v limit=$limit -v names="$names" '
    function look(word) { if (word in is_op && !((FILENAME, word) in seen)) { seen[FILENAME, word] = 1; count[FILENAME]++ } }
    BEGIN { n = split(names, list, "\n"); for (i = 1; i <= n; i++) is_op[list[i]] = 1 }
    {
      line = $0
      gsub(/ops?_?<"[a-z0-9_.]+">/, "", line)
      if (match(line, /^ *([A-Za-z_]+[.:(]|function [A-Za-z_.]+[.:])?[a-z][a-z0-9_]* *[=,(]/)) {
        word = substr(line, RSTART, RLENGTH - 1)
        gsub(/ *$/, "", word)
        gsub(/^.*[.:( ]/, "", word)
        look(word)
      }
      while (match(line, /["'"'"'][a-z][a-z0-9_]*["'"'"']/)) {
        look(substr(line, RSTART + 1, RLENGTH - 2))
        line = substr(line, RSTART + RLENGTH)
      }
    }
    END { for (f in count) if (count[f] > limit) printf "%s names %d operations; engine/ops is their only list\n", f, count[f] }
  ' $(files 'engine/*' 'bindings/*' 'shell/*' 'scripts/*' | grep -vE '^(engine/ops/|scripts/data/|shell/lua/help/aliases)') /dev/null
}

law "every operation stands in one place, engine/ops, and in no second list" one_list_of_ops
law "layers look down only: base, tensor, ops, watch, cpu and io, bindings, shell" layers_look_down
law "state of the engine stands in one file, so that modules have the same" state_stands_in_one_file
law "only kernels take addresses in device memory" only_kernels_touch_devices
law "the engine knows nothing of Lua" engine_knows_no_lua
law "no layer calls a function that the CPU's kernels define" below_call_no_kernel
law "operations, gradients, autocast and watchers read and write no element of a tensor themselves" ops_touch_no_elements
law "kernels of a lane level include nothing that others inline" levels_include_little
law "the objects of a lane level define only their own namespace" levels_define_only_their_own
law "the top level holds exactly its eight names" top_level
law "no file of code is longer than 800 lines" files_are_short
law "every file of code opens with a comment that says what it is for" files_open_with_a_comment
law "nothing is marked as left for later" nothing_is_left_for_later
echo "$passed passed, $failed failed"
((failed == 0))
