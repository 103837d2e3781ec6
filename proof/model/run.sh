#!/bin/bash
# Verifies the models of this folder with spin: the right protocol in every scenario,
# exhaustively, and each known bug put in, which has to be found.
#
#   run.sh              all of it but the largest, one line each, a summary at the end
#   run.sh NAME...      only the lines with these names
#   run.sh part I N     every n-th line, from the i-th on, without the largest
#   run.sh trail NAME   the counterexample of a bug, step by step
#
# Needs spin (Debian package spin) and a C compiler; says SKIPPED and ends well if there is
# none. JOBS searches at a time (default 2), each with MEMORY megabytes at most (default
# 1900). The largest, register-any-any (77 million states), needs 8,000 and six minutes:
# MEMORY=8000 run.sh register-any-any.
set -u
models=$(cd "$(dirname "$0")" && pwd)
MEMORY=${MEMORY:-1900}
JOBS=${JOBS:-2}
CC=${CC:-cc}

# name | model | flags | search | words
# search: all (every reachable state), cycle (all, and no endless loop either: no path
# visits a state twice), or for a bug the pattern (a/b: either) that the violated property has to match.
runs() {
	cat <<'END'
register-check     | operation.pml | SCENARIO_CHECKS                       | cycle | two registrations, two checks
register-hand-over | operation.pml | SCENARIO_CHECKS MAXLOOKS=1            | cycle | the same, a runner looks again once and then hands over
register-any       | operation.pml | SCENARIO_ANY                          | cycle | two registrations, any verb
register-any-any   | operation.pml | SCENARIO_ANY_ANY                      | all   | two registrations, any two verbs
late-any-any       | operation.pml | SCENARIO_RACE                         | cycle | one pending, one registration, any two verbs
late-wide          | operation.pml | SCENARIO_RACE WIDE MAXLOOKS=1 MAXWORKERS=2 | all | the same, both keys each, hand-over, two workers
one-any-any        | operation.pml | SCENARIO_ONE_ANY_ANY                  | cycle | one registration, any two verbs
pending-any        | operation.pml | SCENARIO_PENDING                      | all   | two pending, any three verbs
pending-wide       | operation.pml | SCENARIO_PENDING TWO WIDE MAXWORKERS=2 | all   | two pending, both keys each, any two verbs, two workers
expiry             | operation.pml | SCENARIO_EXPIRY                       | all   | two registrations, expiry, a check
close              | operation.pml | SCENARIO_CLOSE                        | all   | two registrations, close, expiry
force-cancel       | operation.pml | SCENARIO_FORCE                        | cycle | registration, force, cancel by key, check
lists              | operation.pml | SCENARIO_LISTS                        | cycle | two registrations, force, check
extend             | operation.pml | SCENARIO_EXTEND                       | cycle | extend, two expiries, a check
signal             | operation.pml | SCENARIO_SIGNAL                       | cycle | registration, a signal for each key, a check
signal-again       | operation.pml | SCENARIO_SIGNAL_TWICE                 | cycle | two pending, three signals, one worker
purge              | operation.pml | SCENARIO_PURGE                        | cycle | registration, two checks, purge beside them
rejected           | operation.pml | SCENARIO_REJECTED                     | cycle | registration, close, force, expiry; what is refused has ended
nested             | operation.pml | SCENARIO_NESTED                       | cycle | a try that checks the other's key, a check, force
shutdown           | operation.pml | SCENARIO_SHUTDOWN                     | all   | registration, a Close whose callbacks block, Shutdown with an ended context
shutdown-check     | operation.pml | SCENARIO_SHUTDOWN_CHECK               | all   | registration, check, Shutdown with an ended context
timer-cancel       | timer.pml     | SCENARIO_CANCEL                       | all   | one entry: add, two extends, cancel, two workers
timer-stop         | timer.pml     | SCENARIO_STOP                         | all   | the same with stop
timer-shorten      | timer.pml     | SCENARIO_SHORTEN                      | all   | the same with a shorter deadline
clock              | clock.pml     |                                       | all   | two adders, the driver, time
clock-cancel       | clock.pml     | CANCEL                                | all   | the same, and an entry cancelled
asked-checks       | asked.pml     | SCENARIO_CHECKS                       | cycle | three pending, three checks, one of them for a lower position
asked-signals      | asked.pml     | SCENARIO_SIGNALS                      | cycle | three pending, a check, two signals
asked-workers      | asked.pml     | SCENARIO_SIGNALS MAXWORKERS=2 MAXAGAIN=0 | cycle | the same, two workers, a walk never begins again itself
asked-register     | asked.pml     | SCENARIO_REGISTER                     | cycle | two pending, a registration between them, two checks
asked-cancel       | asked.pml     | SCENARIO_CANCEL                       | cycle | three pending, two checks, a cancellation of the key
asked-map          | asked.pml     | SCENARIO_MAP                          | all   | one pending, two registrations, a check, a signal: the key leaves the map and comes back
asked-map-cancel   | asked.pml     | SCENARIO_MAP_CANCEL                   | cycle | one pending, a registration, two checks, a cancellation: the same
pool               | pool.pml      |                                       | all   | three pieces of work, one worker at a time
pool-two           | pool.pml      | LIMIT=2                               | all   | the same, two at a time
pool-blocks        | pool.pml      | LIMIT=2 BLOCKS                        | all   | the same, the first piece of work ends after the others
pool-lingers       | pool.pml      | LINGERS=1 PIECES=2                    | all   | two pieces of work, one worker at a time, which may linger
pool-two-linger    | pool.pml      | LIMIT=2 LINGERS=1 PIECES=2            | all   | the same, two at a time
BUG-6653   | operation.pml | SCENARIO_CHECKS BUG_6653            | state\[1\]   | KAFKA-6653: a try-lock that fails and leaves no mark: wake-up lost
BUG-8334   | operation.pml | SCENARIO_CHECKS BUG_8334            | state\[1\]   | KAFKA-8334: a mark that this way out does not look at: wake-up lost
BUG-second | operation.pml | SCENARIO_CHECKS BUG_NOSECOND        | state\[1\]   | no second try after linking (KAFKA-1952, RocketMQ #7359): wake-up lost
BUG-19312  | operation.pml | SCENARIO_EXPIRY BUG_19312           | inTry/callbacks/accepted | KAFKA-19312: expiry beside a running check: overlap, or an end before it is accepted
BUG-2253   | operation.pml | SCENARIO_LISTS BUG_2253             | linked       | KAFKA-2253: added to a list just removed: nobody finds it
BUG-6682   | clock.pml     | BUG_PUBLISH                         | fired        | Tokio #6682: next wake-up computed, and then published: slept over
BUG-wish   | operation.pml | SCENARIO_FORCE BUG_WISH             | wish         | letting go without looking at wishes: force lost
BUG-looks  | operation.pml | SCENARIO_CHECKS MAXLOOKS=1 BUG_LOOKS | state\[1\]  | giving up looking again without handing over: wake-up lost
BUG-mark   | operation.pml | SCENARIO_SIGNAL_TWICE BUG_SIGNAL_MARK | state\[1\] | signal's mark cleared after the check: wake-up lost
BUG-close  | operation.pml | SCENARIO_CLOSE BUG_CLOSE            | inWheel/closing | closed looked at outside the lock: left without an answer
BUG-clear  | operation.pml | SCENARIO_CLOSE BUG_CLEAR            | inWheel/closing | an expiry that meets a registration is scheduled once more, and Close's wish is forgotten with it: left without an answer
BUG-nested | operation.pml | SCENARIO_NESTED BUG_NESTED          | state\[1\]   | a check inside a try is refused and left to nobody: wake-up lost
BUG-shutdown | operation.pml | SCENARIO_SHUTDOWN_CHECK BUG_SHUTDOWN | registers  | Shutdown with an ended context returns before it has closed: left pending
BUG-first  | operation.pml | SCENARIO_SHUTDOWN BUG_FIRST         | registers    | Shutdown leaves it to a Close that a callback holds up: left pending
BUG-stale  | operation.pml | SCENARIO_PURGE BUG_STALE            | linked       | no purge: what has ended stays linked
BUG-extend | operation.pml | SCENARIO_EXTEND BUG_EXTEND          | extendedTo   | expiry compares and writes in two steps: expired before what Extend promised
BUG-extend-timer | timer.pml | SCENARIO_CANCEL BUG_EXTEND        | promised     | extended without the lock: expired before what Extend promised
BUG-last   | asked.pml     | SCENARIO_REGISTER BUG_LAST          | seen         | the last try in a row clears the mark and lets go: wake-up lost
BUG-clears | asked.pml     | SCENARIO_CHECKS BUG_CLEAR           | seen         | asked is looked at in one hold of the lock, and walking cleared in the next: wake-up lost
BUG-rest   | asked.pml     | SCENARIO_CHECKS BUG_REST            | seen         | a walk pauses and asks for nothing, a newer one is for a lower position: its rest is lost
BUG-marks  | asked.pml     | SCENARIO_CHECKS BUG_MARKS           | seen         | after a pause, a walk forgets what others had asked for before: wake-up lost
BUG-newer  | asked.pml     | SCENARIO_CHECKS BUG_NEWER           | owner        | a paused walk goes on although a newer one has begun: two at once
BUG-queued | asked.pml     | SCENARIO_SIGNALS BUG_QUEUED         | seen         | a paused walk goes on although a worker will: what was signalled is lost
BUG-unmarked | asked.pml   | SCENARIO_CHECKS BUG_MARK            | seen         | a check that meets a walk leaves no mark: wake-up lost
BUG-busy   | asked.pml     | SCENARIO_REGISTER BUG_BUSY          | seen         | a walk that finds an operation busy leaves no mark: wake-up lost
BUG-late   | asked.pml     | SCENARIO_REGISTER BUG_LATE          | seen         | no second try after linking: wake-up lost
BUG-pool   | pool.pml      | BUG_POOL                            | queued       | a worker looks first and leaves after: work left behind
BUG-starts | pool.pml      | LIMIT=2 BLOCKS BUG_STARTED          | end state    | a goroutine says after its first piece of work that it has started: others wait behind it
BUG-token  | pool.pml      | LIMIT=2 LINGERS=1 BUG_TOKEN                   | end state    | a worker lingers before the one that was woken has its token: it waits for ever
BUG-timed  | pool.pml      | LINGERS=1 BUG_TIMED                     | end state    | the timer says after its look that it is not set: a worker waits for ever
END
}

for tool in spin "$CC"; do
	if ! command -v "$tool" >/dev/null; then
		echo "model: SKIPPED, nothing was verified: no $tool here (Debian: apt-get install spin gcc)"
		exit 0
	fi
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

trim() { local s=$1; s=${s#"${s%%[![:space:]]*}"}; echo "${s%"${s##*[![:space:]]}"}"; }

# build MODEL SEARCH FLAGS...: makes ./pan
build() {
	local model=$1 search=$2 mode=-DSAFETY f
	shift 2
	local flags=()
	for f in "$@"; do flags+=("-D$f"); done
	if [ "$search" = cycle ]; then mode=-DNP; fi
	rm -f pan* ./*.trail
	cp "$models/$model" .
	spin "${flags[@]}" -a "$model" >spin.log 2>&1 || { cat spin.log; return 1; }
	"$CC" -w "$mode" -DCOLLAPSE -DNOFAIR -DMEMLIM="$MEMORY" -o pan pan.c
}

search() { if [ "$1" = cycle ]; then ./pan -l -n -m100000; else ./pan -n -m100000; fi; }

one() { # name model flags search words
	local name=$1 model=$2 flags=$3 how=$4 words=$5 states errors why out
	# shellcheck disable=SC2086
	if ! build "$model" "$how" $flags; then
		echo "$name: FAILED, the model does not compile"; return
	fi
	search "$how" >pan.log 2>&1
	states=$(awk '/states, stored/ {print $1; exit}' pan.log)
	errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.log | head -1)
	why=$(sed -n 's/^pan:1: \(.*\) (at depth.*/\1/p' pan.log | head -1)
	out=$(printf '%-18s %10s states' "$name" "${states:-no}")
	if [ -z "$errors" ] || grep -q 'max search depth too small\|out of memory\|hint: to reduce memory' pan.log; then
		echo "$out  FAILED, not all was searched: $(grep -m1 'pan:\|memory\|depth' pan.log)"
	elif [ "$how" = all ] || [ "$how" = cycle ]; then
		if [ "$errors" = 0 ]; then
			echo "$out  right: $words"
		else
			echo "$out  FAILED: $words: $why"
		fi
	elif [ "$errors" = 0 ]; then
		echo "$out  FAILED, not found: $words"
	elif ! grep -qE "${how//\//|}" <<<"$why"; then
		echo "$out  FAILED, found something else: $words: $why"
	else
		echo "$out  found: $words"
	fi
}

cd "$work" || exit 1
if [ "${1:-}" = trail ]; then
	while IFS='|' read -r name model flags how _; do
		[ "$(trim "$name")" = "${2:-}" ] || continue
		model=$(trim "$model") flags=$(trim "$flags") how=$(trim "$how")
		# shellcheck disable=SC2086
		build "$model" "$how" $flags || exit 1
		if [ "$how" = cycle ]; then ./pan -l -n -m100000 >/dev/null; else ./pan -n -m100000 -i >/dev/null 2>&1; fi
		if [ ! -e "$model.trail" ]; then echo "$2: no counterexample"; exit 1; fi
		# shellcheck disable=SC2086
		exec spin -t -p -g $(printf -- '-D%s ' $flags) "$model"
	done < <(runs)
	echo "no such run: ${2:-}"; exit 2
fi

if [ "${1:-}" = one ]; then
	while IFS='|' read -r name model flags how words; do
		if [ "$(trim "$name")" = "$2" ]; then
			one "$2" "$(trim "$model")" "$(trim "$flags")" "$(trim "$how")" "$(trim "$words")"
		fi
	done < <(runs)
	exit 0
fi

names() { runs | cut -d'|' -f1 | tr -d ' '; }

# wanted [part I N | NAME...]
wanted() {
	case "${1:-}" in
	'') names | grep -vFx register-any-any ;;
	part) wanted | awk -v i="${2:?}" -v n="${3:?}" 'NR % n == i % n' ;;
	*) names | grep -Fx "$(printf '%s\n' "$@")" ;;
	esac
}

wanted "$@" |
	xargs -r -P "$JOBS" -n 1 "$models/run.sh" one | tee results
awk '
	/FAILED/ { failed++ }
	/ right: / { right++ }
	/ found: / { found++ }
	{ states += $2 }
	END {
		printf "model: %d states, exhaustive; %d scenarios of the right protocol hold, %d known bugs put in were found; %d failed\n", states, right, found, failed
		exit failed > 0 || right + found == 0
	}' results
