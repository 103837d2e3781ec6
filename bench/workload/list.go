package workload

import (
	"regexp"

	"github.com/delayedop/purgatory/bench/purgatories"
	"github.com/delayedop/purgatory/bench/result"
	"github.com/delayedop/purgatory/bench/timers"
)

// Family is a group of workloads that are measured together.
type Family struct {
	Name      string
	Workloads []Workload
	run       func(*Run)
}

// Workload says what one of the tables holds.
type Workload struct {
	Name  string
	Title string
	// Bases are the peers that ratios are taken to, the standard library's first.
	Bases []string
	// Ratio is the metric that they are taken of.
	Ratio string
}

var (
	timerBases     = []string{timers.Std}
	lifeBases      = []string{timers.Alone, purgatories.CB}
	purgatoryBases = []string{purgatories.Timers, purgatories.CB}
)

// Families lists the workloads of a full run in the order in which they run.
func Families() []Family {
	return []Family{
		{"add+cancel", []Workload{
			{"T1", "a timer added and cancelled at once, P others pending", timerBases, result.NsOp},
			{"T1w", "a timer added, the one added 10,000 adds ago cancelled", timerBases, result.NsOp},
		}, addCancel},
		{"life", []Workload{
			{"P1", "an operation's life, 1 key, batches of 64", lifeBases, result.NsOp},
			{"P2", "an operation's life, 3 keys, two of them never checked", lifeBases, result.NsOp},
			{"P3", "P2 among a million long operations", []string{purgatories.CB}, result.NsOp},
		}, life},
		{"timer memory", []Workload{
			{"T3", "bytes per pending timer, with what the caller keeps of it", timerBases, result.Bytes},
		}, pendingTimers},
		{"operation memory", []Workload{
			{"P5", "bytes per pending operation, stacks included", purgatoryBases, result.Bytes},
			{"P7", "processor time of doing nothing", purgatoryBases, result.CPUIdle},
		}, pendingOperations},
		{"thresholds", []Workload{{"H1", "a step of the log that satisfies 10 of N waiters", purgatoryBases, result.NsStep}}, thresholds},
		{"timer expiry", []Workload{{"T2", "N timers expire within a second", timerBases, result.CPUSec}}, timerExpiry},
		{"operation expiry", []Workload{
			{"P6", "operations on 1,000 keys expire within a second", purgatoryBases, result.CPUSec},
		}, operationExpiry},
		{"probes", []Workload{{"P8", "probes with 20..100 ms beside P3", purgatoryBases, result.LateP99}}, probesBeside},
		{"open loop", []Workload{
			{"P4", "Poisson arrivals, log-normal completion, 3 of 100 keys", purgatoryBases, result.CPUOp},
		}, openLoop},
	}
}

// Matches says whether the name of the family or of one of its workloads matches.
func (f Family) Matches(re *regexp.Regexp) bool {
	if re.MatchString(f.Name) {
		return true
	}
	for _, w := range f.Workloads {
		if re.MatchString(w.Name) {
			return true
		}
	}
	return false
}
