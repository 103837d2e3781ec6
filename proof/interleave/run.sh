#!/bin/bash
# Runs small scenarios on the library's code under every schedule within a bound on
# preemptions; see doc.go. The arguments are passed to the tests:
#
#   -pairs 3 -triples 2            the bounds (these are the defaults; about 4 minutes)
#   -triples 1                     a quick round, half a minute
#   -part 2/3                      every third scenario, from the second on
#   -scenario A+B/1 -replay 1.4-2  one schedule, with its steps
set -eu -o pipefail
cd "$(dirname "$0")/../.."
${GO:-go} test -tags interleave -count=1 -run EveryInterleaving ./purgatory ./timer ./watchers ./internal/workers ./internal/observe ./queue ./signals
${GO:-go} test -tags interleave -count=1 -timeout 60m -v ./proof/interleave -args "$@" |
	grep -v -E '^(=== |--- PASS|PASS$|ok )' || exit 1
