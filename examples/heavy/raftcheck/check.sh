#!/usr/bin/env bash
# Checks the store under faults, and that the check can fail. ARGS go to the first part, for example -seeds 5.
set -euo pipefail
cd "$(dirname "$0")"

built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
echo "--- building"
go build -o "$built/" . ../raftkv/cmd/raftkv
go build -tags raftkv_defects -o "$built/raftkv-seeded" ../raftkv/cmd/raftkv

echo "--- as it is"
"$built/raftcheck" check -seeds 50 -duration 30s -parallel 2 "$@"

# Each defect meets the fault that exposes it, for at most so many seeds.
echo "--- a read that does not wait for the index that the leader has confirmed"
"$built/raftcheck" check -member "$built/raftkv-seeded" -seeds 10 -duration 15s -defect skip-applied-wait
echo "--- a leader that does not ask whether it still is the leader"
"$built/raftcheck" check -member "$built/raftkv-seeded" -seeds 20 -duration 20s -faults SIGSTOP -defect skip-verify
echo "--- a cancelled proposal that is reported as not written"
"$built/raftcheck" check -member "$built/raftkv-seeded" -seeds 10 -duration 15s -faults "replies lost" -defect claim-not-written
