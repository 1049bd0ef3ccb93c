#!/bin/bash
# `tycho run` as a user meets it: exit statuses, whole lines, ranks that will not end, what they leave
# behind, killed launchers, restarts, two jobs at once, options that do not fit.
# Prints ok or FAIL per test and ends with `N passed, N failed`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
tycho=${TYCHO:-$PWD/build/tycho}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
passed=0 failed=0

# check "SENTENCE" GOT WANTED
check() {
  if [[ $2 == "$3" ]]; then
    passed=$((passed + 1))
    echo "ok $1"
  else
    failed=$((failed + 1))
    printf 'FAIL %s\n  got:    %q\n  wanted: %q\n' "$1" "$2" "$3"
  fi
}
# ran ARGUMENTS: stdout in $out, stderr in $err, status in $status
ran() {
  ${limited-timeout 60} "$tycho" run "$@" >out 2>err </dev/null
  status=$? out=$(sort out) err=$(<err)
}
# Waits for a command to come true; a test that waits for ever is ended by its runner.
until_true() { until "$@" 2>/dev/null; do sleep 0.02; done; }
gone() { ! kill -0 "$1" 2>/dev/null || [[ $(ps -o stat= -p "$1") == Z* ]]; }
all_gone() {
  local pid
  for pid in "$@"; do gone "$pid" || return 1; done
}
lines_in() { (($(cat "$1" 2>/dev/null | wc -l) >= $2)); }

cat >who.lua <<'END'
local e = os.getenv
print(e "RANK", e "LOCAL_RANK", e "WORLD_SIZE", e "LOCAL_WORLD_SIZE", e "RESTART_COUNT", arg[1], arg[2])
END
ran -n 3 who.lua a --b
check "every rank runs the script with its arguments, and knows who it is" "$status $out $err" \
  "0 $(printf '[r%d] %d\t%d\t3\t3\t0\ta\t--b\n' 0 0 0 1 1 1 2 2 2) "
ran --nproc_per_node=2 --standalone who.lua
check "torchrun's names are understood" "$status $(wc -l <out)" "0 2"
ran -n auto -e 'print(os.getenv("WORLD_SIZE"))'
check "auto is one rank for each core" "$status $(wc -l <out)" "0 $(nproc)"

ran -n 2 -e 'io.write("a") io.flush() os.execute("sleep 0.05") io.write("b\nc")'
check "lines are whole, and the last one ends" "$out" $'[r0] ab\n[r0] c\n[r1] ab\n[r1] c'
ran -n 2 -e 'for i = 1, 2000 do print(("x"):rep(i % 300)) end'
check "no line is torn or lost" "$(grep -cE '^\[r[01]\] x*$' out)" 4000

ran -n 3 -e 'if os.getenv("RANK") == "1" then os.exit(7) end os.execute("sleep 50")'
check "the exit status is that of the first failure" "$status ${err//after * s/after}" \
  "7 tycho run: rank 1 failed with status 7 after; the others are ended"
ran -n 2 -e 'if os.getenv("RANK") == "0" then os.execute("kill -SEGV $PPID") end os.execute("sleep 50")'
check "a signal is 128 and its number" "$status ${err//after * s/after}" \
  "139 tycho run: rank 0 killed by signal 11 (Segmentation fault) after; the others are ended"
ran -n 2 -e 'if os.getenv("RANK") == "1" then error("boom") end os.execute("sleep 50")'
check "its error is shown first" "$status $(head -n 1 err)" "1 [r1] tycho: (command line):1: boom"

# Ranks inherit what is ignored.
(
  trap '' TERM
  limited=  # timeout(1) would take it back
  ran -n 2 -e 'if os.getenv("RANK") == "1" then os.exit(3) end os.execute("sleep 50")'
  echo "$status" >status
)
check "a rank that ignores SIGTERM is killed" "$(<status)" 3

ran -n 2 -e 'os.execute("sleep 1000 & echo $! >> children") if os.getenv("RANK") == "1" then os.exit(3) end os.execute("sleep 50")'
check "grandchildren of a failed job are ended" "$status $(all_gone $(<children) && echo gone)" "3 gone"
rm -f children
ran -n 2 -e 'os.execute("sleep 1000 >/dev/null 2>&1 & echo $! >> children")'
check "so are those of one that went well" "$status $(all_gone $(<children) && echo gone)" "0 gone"

"$tycho" run -n 3 -e 'os.execute("echo $PPID >> ranks; sleep 0.01") while true do end' >out 2>err </dev/null &
launcher=$!
until_true lines_in ranks 3
kill -9 $launcher
wait $launcher 2>/dev/null
mapfile -t pids <ranks
until_true all_gone "${pids[@]}"
check "a killed launcher takes its ranks along" "${#pids[@]}" 3

# A background job of this shell would ignore SIGINT.
cat >stop.lua <<'END'
os.execute("echo here >> running")
torch.until_interrupt(function() while true do torch.ones(10):sum() end end)
os.execute("echo saved >> saved")
END
env --default-signal=INT "$tycho" run -n 2 stop.lua >out 2>err </dev/null &
launcher=$!
until_true lines_in running 2
kill -INT $launcher
wait $launcher
check "Ctrl-C lets all ranks end in order" "$? $(wc -l <saved) $(<err)" \
  "130 2 tycho run: all ranks are asked to end; Ctrl-C again kills them"
rm -f running
env --default-signal=INT "$tycho" run -n 2 -e 'os.execute("echo here >> running; trap : INT; while :; do sleep 1; done")' >out 2>err </dev/null &
launcher=$!
until_true lines_in running 2
kill -INT $launcher
until_true test -s err
kill -INT $launcher
wait $launcher
check "a second Ctrl-C kills them" "$?" 130
rm -f running
"$tycho" run -n 2 -e 'os.execute("echo here >> running; exec sleep 100")' >out 2>err </dev/null &
launcher=$!
until_true lines_in running 2
kill -TERM $launcher
wait $launcher
check "SIGTERM ends all, and the status says so" "$?" 143

cat >again.lua <<'END'
print(os.getenv "RESTART_COUNT")
if os.getenv "RESTART_COUNT" ~= "2" and os.getenv "RANK" == "1" then os.exit(5) end
END
ran -n 2 --max-restarts 2 again.lua
check "after a failure all ranks start again" "$status $(grep -c '^\[r1\]' out) $(grep -c 'start again' err)" "0 3 2"
ran -n 2 --max-restarts 1 again.lua
check "but not more often than told" "$status" 5

"$tycho" run -n 2 -e 'os.execute("sleep 0.2") print(os.getenv "MASTER_PORT")' >one 2>&1 </dev/null &
first=$!
"$tycho" run -n 2 -e 'os.execute("sleep 0.2") print(os.getenv "MASTER_PORT")' >two 2>&1 </dev/null
second=$?
wait $first
check "two jobs at once have two stores" "$? $second $(cat one two | cut -d' ' -f2 | sort -u | wc -l)" "0 0 2"

cat >two.lua <<'END'
local e = os.getenv
local store = require("torch.distributed.store").TCPStore(e "MASTER_ADDR", math.tointeger(e "MASTER_PORT"), {timeout = 30})
print(e "RANK", e "LOCAL_RANK", e "GROUP_RANK", e "WORLD_SIZE", e "LOCAL_WORLD_SIZE")
if store:add("here", 1) == 4 then store:set("all", "") end
store:get "all"
if store:add("done", 1) == 4 then store:set("over", "") end
if e "GROUP_RANK" == "0" then store:get "over" end
END
port=$("$tycho" -e 'print(require("torch.distributed.store").TCPStore("127.0.0.1", 0, {is_master = true}).port)')
"$tycho" run -n 2 --nnodes 2 --node-rank 1 --master "127.0.0.1:$port" two.lua >one 2>&1 </dev/null &
first=$!
"$tycho" run -n 2 --nnodes 2 --node-rank 0 --master-addr 127.0.0.1 --master-port $port two.lua >two 2>&1 </dev/null
second=$?
wait $first
check "the ranks of two machines meet at the first one" "$? $second $(sort one two)" \
  "0 0 $(printf '[r%d] %d\t%d\t%d\t4\t2\n' 0 0 0 0 1 1 1 0 2 2 0 1 3 3 1 1)"

echo "print(io.read())" | timeout 20 "$tycho" run -n 2 -e 'print(io.read())' >out 2>err
check "rank 0 reads what comes in, the others nothing" "$(sort out)" $'[r0] print(io.read())\n[r1] nil'

# says "SENTENCE" "MESSAGE" ARGUMENTS: the launcher refuses, in one line
says() {
  ran "${@:3}"
  check "$1" "$status $err" "2 tycho run: $2"
}
says "an unknown option" "no option --foo; tycho run --help lists them" -n 2 --foo who.lua
says "a bad number" '-n wants a number of ranks from 1 to 1024, or auto, not "0"' -n 0 who.lua
says "a missing value" "-n wants a value" -n
says "no script" "which script is to be run?" -n 2
says "a missing script" "cannot read none.lua: No such file or directory" -n 2 none.lua
says "no GPU" "-n gpu: this machine has no CUDA device" -n gpu who.lua
says "a machine too many" "--node-rank 2: of 2 machines the last is 1 (--nnodes)" --nnodes 2 --node-rank 2 --master h:1 who.lua
says "machines without a meeting point" \
  "several machines meet at one of them: --master HOST:PORT, the machine of --node-rank 0" --nnodes 2 who.lua
says "a bad meeting point" '--master wants a host and a port, as in 10.0.0.1:29500, not "h1"' --nnodes 2 --master h1 who.lua
says "elastic jobs" "--nnodes 1:2: the number of machines does not change while a job runs" --nnodes 1:2 who.lua
echo secret >token
says "a token that others may read" "--token-file token: others may read it; chmod 600 token" --token-file token who.lua
chmod 600 token
says "a token that is too short" "--token-file token: it wants 16 characters or more, as from openssl rand -hex 16" \
  --token-file token who.lua
ran --nnodes 2 --master h1:29500 who.lua
check "machines without a token are shown one" "$status $(tail -n 1 err | cut -d= -f1)" "2    export TYCHO_TOKEN"
ran --help
check "help is there" "$status $(head -n 1 out)" "0 usage: tycho run [options] FILE.lua [arguments]"

echo "$passed passed, $failed failed"
((failed == 0))
