#!/bin/bash
# Two hosts: network namespaces with a cable between them. Ranks train across it through Gloo, two of
# them share each host's memory, and when the cable is cut every rank says so. Where the system
# refuses namespaces there is nothing to test.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
program=$(realpath "${TYCHO:-build/tycho}")

# The first run makes a user and a world of its own, and runs this file again in it.
if [[ -z ${IN_NAMESPACE:-} ]]; then
  refused() {
    echo "network namespaces are refused here ($1): the test of two hosts is skipped"
    echo "ok two hosts are skipped where namespaces are refused"
    echo "1 passed, 0 failed"
    exit 0
  }
  for tool in ip unshare nsenter; do command -v $tool >/dev/null || refused "no $tool"; done
  why=$(unshare -Urnm true 2>&1) || refused "$why"
  why=$(unshare -Urnm ip link add cable0 type veth peer name cable1 2>&1) || refused "$why"
  IN_NAMESPACE=1 exec unshare -Urnm --kill-child --pid --fork --mount-proc bash "${BASH_SOURCE[0]}"
fi

passed=0 failed=0
check() {
  if [[ $2 == "$3" ]]; then
    passed=$((passed + 1))
    echo "ok $1"
  else
    failed=$((failed + 1))
    printf 'FAIL %s\n  is:     %s\n  should: %s\n' "$1" "$2" "$3"
    tail -n 20 one two | sed 's/^/    /'
  fi
}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

# The other host is a namespace that a sleeper holds.
unshare -n sleep 600 &
other=$!
until [[ $(readlink /proc/$other/ns/net) != $(readlink /proc/self/ns/net) ]]; do sleep 0.01; done
there() { nsenter -t $other -n "$@"; }
ip link add cable0 type veth peer name cable1
ip link set cable1 netns $other
ip link set lo up
ip addr add 10.7.0.1/24 dev cable0
ip link set cable0 up
there ip link set lo up
there ip addr add 10.7.0.2/24 dev cable1
there ip link set cable1 up

export TYCHO_TOKEN=0123456789abcdef0123456789abcdef
port=29517
start() {  # start SCRIPT RANKS_PER_HOST: both hosts; their output is in one and two
  there timeout -k 5 60 "$program" run -n "$2" --nnodes 2 --node-rank 1 --master 10.7.0.1:$port "$1" >two 2>&1 </dev/null &
  second=$!
  timeout -k 5 60 "$program" run -n "$2" --nnodes 2 --node-rank 0 --master 10.7.0.1:$port "$1" >one 2>&1 </dev/null &
  first=$!
}
finish() {
  wait $first
  status=$?
  wait $second
  status="$status $?"
  port=$((port + 1))
}

cat >sums.lua <<'END'
local dist = torch.distributed
dist.init_process_group()
local rank, world = dist.get_rank(), dist.get_world_size()
for _, n in ipairs{1, 1000, 300000} do
  local x = torch.full({n}, rank + 1.0)
  dist.all_reduce(x)
  assert(x:min():item() == world * (world + 1) / 2 and x:max():item() == world * (world + 1) / 2)
  local y = torch.full({n}, rank + 1.0)
  dist.broadcast(y, world - 1)
  assert(y:min():item() == world)
end
if rank == 0 then dist.send(torch.arange(5), world - 1) end
if rank == world - 1 then
  local x = torch.zeros(5, {dtype = torch.int64})
  dist.recv(x, 0)
  assert(x:sum():item() == 10)
end
dist.barrier()
print("done " .. rank)
dist.destroy_process_group()
END
for each in 1 2; do
  start sums.lua $each
  finish
  check "two hosts with $each of $((2 * each)) ranks each reduce, broadcast and send over the cable" \
    "$status $(cat one two | grep -c 'done')" "0 0 $((2 * each))"
done

cat >cut.lua <<'END'
local dist = torch.distributed
dist.init_process_group()
local x = torch.ones(1000000)
for step = 1, 1e9 do
  dist.all_reduce(x, {op = dist.ReduceOp.MAX})
  if step == 3 then io.open("begun" .. dist.get_rank(), "w"):close() end
end
END
start cut.lua 1
for ((i = 0; i < 2000; i++)); do
  [[ -e begun0 && -e begun1 ]] && break
  sleep 0.01
done
began=$SECONDS
ip link set cable0 down
finish
echo "noticed after about $((SECONDS - began)) s"
check "a cable that is cut ends both hosts' ranks, and each names the other" \
  "$status $(grep -c 'rank 1 .*died' one) $(grep -cE 'rank 0 .*died|server|store' two | sed 's/[1-9][0-9]*/some/')" "1 1 1 some"

kill $other
echo "$passed passed, $failed failed"
((failed == 0))
