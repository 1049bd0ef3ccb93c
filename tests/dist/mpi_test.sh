#!/bin/bash
# Ranks that mpirun starts: the verbs and messages of mpi_test.cpp, and what is said without mpirun
# and after a death. Where Open MPI is not installed there is nothing to test.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
passed=0 failed=0
verdict() {
  if [[ $1 == 0 ]]; then
    passed=$((passed + 1))
    echo "ok $2"
  else
    failed=$((failed + 1))
    printf 'FAIL %s\n%s\n' "$2" "$said"
  fi
}
program=${TYCHO:-build/tycho}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

said=$("$program" -e 'torch.distributed.init_process_group{backend = "mpi", world_size = 1, rank = 0}' 2>&1)
verdict $? "a rank alone needs no MPI"
if ! command -v mpirun >/dev/null || [[ $("$program" -e 'print(torch.distributed.is_mpi_available())') != true ]]; then
  echo "Open MPI is not here: the rest is skipped"
  echo "$passed passed, $failed failed"
  exit $((failed > 0))
fi

for n in 2 4; do
  said=$(timeout -k 5 120 mpirun --oversubscribe -n $n "$(dirname "$program")/dist_tests" '--gtest_filter=Mpi.*' 2>&1 </dev/null)
  verdict $? "$n ranks of mpirun move and combine every type as a serial reference"
done

# Rank 1 kills itself in the middle; mpirun ends the others, which may have said why before.
script=$(mktemp --suffix=.lua)
trap 'rm -f "$script"' EXIT
cat >"$script" <<'LUA'
local dist = torch.distributed
dist.init_process_group{backend = "mpi"}
local x = torch.ones(1000)
for step = 1, 1e9 do
  dist.all_reduce(x, {op = dist.ReduceOp.MAX})
  if step == 50 and dist.get_rank() == 1 then os.execute("kill -9 $PPID") end
end
LUA
said=$(timeout -k 5 60 mpirun --oversubscribe -n 2 "$program" "$script" 2>&1 </dev/null)
status=$?
((status != 0 && status != 124)) && grep -qE "died|signal 9" <<<"$said"
verdict $? "a death ends the whole job, and it is said"

echo "$passed passed, $failed failed"
((failed == 0))
