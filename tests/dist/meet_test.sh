#!/bin/bash
# The ways in which ranks are started, each to its end: torchrun's variables, Open MPI (its own mpirun
# where there is one), PMI and Slurm, addresses, files, two terminals, two machines that start again.
# Prints ok or FAIL per test and ends with `N passed, N failed`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
tycho=${TYCHO:-$PWD/build/tycho}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
passed=0 failed=0
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT TYCHO_STORE TYCHO_TOKEN

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
free_port() {
  "$tycho" -e 'print(require("torch.distributed.store").TCPStore("127.0.0.1", 0, {is_master = true}).port)'
}

cat >sum.lua <<'END'
local dist = torch.distributed
local options = {timeout = 30}
for i = 1, #arg do
  local name, value = arg[i]:match "(.-)=(.*)"
  options[name] = tonumber(value) or value
end
dist.init_process_group(options)
local x = torch.ones(3) * (dist.get_rank() + 1)
dist.all_reduce(x)
print(("%d of %d: %g"):format(dist.get_rank(), dist.get_world_size(), x[1]:item()))
dist.destroy_process_group()
END
sums=$'0 of 3: 6\n1 of 3: 6\n2 of 3: 6'

# three "SENTENCE" COMMAND...: runs it with r = 2, 0, 1 at once; what they print must be the sums.
# shellcheck disable=SC2030,SC2031
three() {
  local r pids=()
  for r in 2 0 1; do
    (export r && timeout 60 bash -c "${@:2}") >"out$r" 2>"err$r" </dev/null &
    pids+=($!)
  done
  wait "${pids[@]}"
  check "$1" "$(cat out? | sort)$(cat err?)" "$sums"
}
export tycho
export port job=$$
port=$(free_port)
three "torchrun's variables" 'RANK=$r WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port $tycho sum.lua'
three "a host by its name" 'RANK=$r WORLD_SIZE=3 MASTER_ADDR=localhost MASTER_PORT=$port $tycho sum.lua init_method=env://'
three "a token of their own" 'TYCHO_TOKEN=0123456789abcdef RANK=$r WORLD_SIZE=3 MASTER_ADDR=localhost MASTER_PORT=$port $tycho sum.lua'
three "an address" '$tycho sum.lua init_method=tcp://127.0.0.1:$port rank=$r world_size=3'
three "a file" '$tycho sum.lua init_method=file://$PWD/meet rank=$r world_size=3'
check "the file is gone" "$(ls meet 2>/dev/null)" ""
three "Open MPI's variables" 'OMPI_COMM_WORLD_RANK=$r OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_LOCAL_RANK=$r \
  OMPI_COMM_WORLD_LOCAL_SIZE=3 PMIX_NAMESPACE=test$job $tycho sum.lua'
three "PMI's variables" 'PMI_RANK=$r PMI_SIZE=3 MPI_LOCALRANKID=$r MPI_LOCALNRANKS=3 PMI_JOBID=test$job $tycho sum.lua'
three "Slurm's variables" 'SLURM_PROCID=$r SLURM_NTASKS=3 SLURM_LOCALID=$r SLURM_NNODES=1 SLURM_JOB_ID=7 \
  SLURM_STEP_ID=test$job $tycho sum.lua'
check "the launcher" "$("$tycho" run -n 3 sum.lua 2>&1 | cut -d' ' -f2- | sort)" "$sums"
if mpirun --version >/dev/null 2>&1; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  check "mpirun" "$(timeout 100 mpirun --oversubscribe -n 3 "$tycho" sum.lua 2>/dev/null </dev/null | sort)" "$sums"
  unset OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
fi

# Rank 0 says how to start the other one.
timeout 60 "$tycho" sum.lua world_size=2 >one 2>line </dev/null &
first=$!
until grep -qs MASTER_PORT line; do sleep 0.02; done
# The line's command, without rank 0's arguments.
eval "$(tail -n 1 line | sed 's/ world_size=.*//')" >two 2>&1
wait $first
check "the line for another terminal" "$? $(sort one two)" $'0 0 of 2: 3\n1 of 2: 3'

# Two of its ranks cannot be told apart, one is missing: all are told, and nobody waits for ever.
n=0
for r in 0 1 1; do
  n=$((n + 1))
  RANK=$r WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port timeout 60 "$tycho" -e '
    torch.distributed.init_process_group{timeout = 0.6}' >/dev/null 2>"err$n" </dev/null &
done
wait
check "a rank that comes twice, and one that is missing" \
  "$(grep -ohE 'there is already rank 1|rank 2 of 3 did not come' err1 err2 err3 | sort)" \
  $'rank 2 of 3 did not come\nrank 2 of 3 did not come\nthere is already rank 1'

cat >again.lua <<'END'
local dist = torch.distributed
dist.init_process_group {timeout = 30}
local x = torch.ones(1)
dist.all_reduce(x)
if os.getenv "RESTART_COUNT" == "0" and dist.get_rank() == 3 then os.execute("kill -9 $PPID") end
dist.all_reduce(x)
print(x:item())
dist.destroy_process_group()
END
port=$(free_port)
for node in 1 0; do
  timeout 60 "$tycho" run -n 2 --nnodes 2 --node-rank $node --master "127.0.0.1:$port" --max-restarts 3 again.lua \
    >"out$node" 2>"err$node" </dev/null &
  pids[node]=$!
done
wait "${pids[0]}"
check "two machines: the first one starts again" "$? $(sort out0)" $'0 [r0] 16.0\n[r1] 16.0'
wait "${pids[1]}"
check "two machines: so does the second" "$? $(sort out1)" $'0 [r2] 16.0\n[r3] 16.0'

ran=$("$tycho" run -n 3 -e 'local dist = torch.distributed
  dist.init_process_group()
  dist.barrier()
  if dist.get_rank() == 1 then os.execute("kill -9 $PPID") end
  dist.barrier()' 2>&1)
check "who died is said first" "$? $(grep -c '^tycho run: rank 1 killed by signal 9' <<<"$ran")" "137 1"

ran=$(ulimit -n 40 && timeout 60 "$tycho" run -n 2 -e 'local dist = torch.distributed
  dist.init_process_group()
  for i = 1, 100 do dist.new_group{0, 1} end' 2>&1)
check "a rank without file descriptors says so, and nobody waits for it" \
  "$? $(grep -o 'no file descriptor left (its limit is 40' <<<"$ran" | sort -u)" "1 no file descriptor left (its limit is 40"

echo "$passed passed, $failed failed"
((failed == 0))
