package workload

import (
	"regexp"
	"slices"

	"github.com/delayedop/purgatory/bench/purgatories"
	"github.com/delayedop/purgatory/bench/result"
	"github.com/delayedop/purgatory/bench/timers"
)

// Family is a group of workloads that are measured together.
type Family struct {
	Name      string
	Workloads []result.Workload
	run       func(*Run)
}

var (
	timerBases     = []string{timers.Std}
	lifeBases      = []string{timers.Alone, purgatories.CB}
	purgatoryBases = []string{purgatories.Timers, purgatories.CB}
)

// Families lists the workloads of a full run in the order in which they run.
func Families() []Family {
	return []Family{
		{"add+cancel", []result.Workload{
			{Name: "T1", Title: "a timer added and cancelled at once, P others pending", Bases: timerBases, Ratio: result.NsOp},
			{Name: "T1w", Title: "a timer added, the one added 10,000 adds ago cancelled", Bases: timerBases, Ratio: result.NsOp},
		}, addCancel},
		{"life", []result.Workload{
			{Name: "P1", Title: "an operation's life, 1 key, batches of 64", Bases: lifeBases, Ratio: result.NsOp},
			{Name: "P2", Title: "an operation's life, 3 keys, two of them never checked", Bases: lifeBases, Ratio: result.NsOp},
			{Name: "P3", Title: "P2 among a million long operations", Bases: []string{purgatories.CB}, Ratio: result.NsOp},
		}, life},
		{"timer memory", []result.Workload{
			{Name: "T3", Title: "bytes per pending timer, with what the caller keeps of it", Bases: timerBases, Ratio: result.Bytes},
		}, pendingTimers},
		{"operation memory", []result.Workload{
			{Name: "P5", Title: "bytes per pending operation, stacks included", Bases: purgatoryBases, Ratio: result.Bytes},
			{Name: "P7", Title: "processor time of doing nothing", Bases: purgatoryBases, Ratio: result.CPUIdle},
		}, pendingOperations},
		{"thresholds", []result.Workload{{Name: "H1", Title: "a step of the log that satisfies 10 of N waiters", Bases: purgatoryBases, Ratio: result.NsStep}}, thresholds},
		{"timer expiry", []result.Workload{{Name: "T2", Title: "N timers expire within a second", Bases: timerBases, Ratio: result.CPUSec}}, timerExpiry},
		{"operation expiry", []result.Workload{
			{Name: "P6", Title: "operations on 1,000 keys expire within a second", Bases: purgatoryBases, Ratio: result.CPUSec},
		}, operationExpiry},
		{"probes", []result.Workload{{Name: "P8", Title: "probes with 20..100 ms beside P3", Bases: purgatoryBases, Ratio: result.LateP99}}, probesBeside},
		{"open loop", []result.Workload{
			{Name: "P4", Title: "Poisson arrivals, log-normal completion, 3 of 100 keys", Bases: purgatoryBases, Ratio: result.CPUOp},
		}, openLoop},
	}
}

// Matches says whether the name of the family or of one of its workloads matches.
func (f Family) Matches(re *regexp.Regexp) bool {
	return re.MatchString(f.Name) || slices.ContainsFunc(f.Workloads, func(w result.Workload) bool { return re.MatchString(w.Name) })
}
