#!/bin/bash
# Runs random programs under random schedules for TIME (default 60s), in one process for each
# processor (JOBS), because a process explores one schedule at a time. The arguments are passed
# to the tests:
#
#   -seed 17                                 the seed of the first program
#   -replay 1f/97.98.190/2.27-4,4.6-5        what a failure has printed, with its steps
set -eu -o pipefail
cd "$(dirname "$0")/../.."
: "${TIME:=60s}" "${JOBS:=$(nproc)}"
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$dir"' EXIT
${GO:-go} test -tags interleave -count=1 ./proof/explore
${GO:-go} test -tags interleave,invariants -c -o "$dir/programs" ./proof/programs
for word in "$@"; do
	[ "${word#--}" = -replay ] || [ "${word#-}" = replay ] && JOBS=1
done
seed=$(date +%s%N)
running=()
for ((i = 0; i < JOBS; i++)); do
	(cd proof/programs && exec "$dir/programs" -test.v -test.timeout 0 -for "$TIME" -seed $((seed + i * 1000000000000)) "$@") >"$dir/$i" 2>&1 &
	running+=($!)
done
status=0
for ((i = 0; i < JOBS; i++)); do
	wait "${running[$i]}" || status=1
	grep -v -E '^(=== |--- |PASS$|FAIL$|ok )' "$dir/$i" || true
done
exit $status
