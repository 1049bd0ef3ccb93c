#!/bin/bash
# The kernel of a notebook, where the program was built with it and Python has ZeroMQ.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
tycho=${TYCHO:-$PWD/build/tycho}
if ! /usr/bin/python3 -c "import zmq" 2>/dev/null; then
  echo "skipped: there is no python3-zmq"
  echo "1 passed, 0 failed, 1 skipped"
  exit 0
fi
if "$tycho" kernel --install --prefix /dev/null 2>&1 | grep -q "built without"; then
  echo "skipped: the program was built without libzmq"
  echo "1 passed, 0 failed, 1 skipped"
  exit 0
fi
exec timeout 300 /usr/bin/python3 tests/shell/kernel_client.py "$tycho"
