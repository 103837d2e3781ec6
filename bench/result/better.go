package result

import (
	"fmt"
	"slices"
	"strings"
)

// Better is a peer that beats the library at something.
type Better struct {
	Workload, Params, Peer, Unit, Form string // Form: of ours
	Theirs, Ours                       float64
}

func (b Better) String() string {
	return fmt.Sprintf("%s %s: %s %s %s, %s %s", b.Workload, b.Params, b.Peer, number(b.Theirs), b.Unit, b.Form, number(b.Ours))
}

// Weighed are the metrics of which less is better, and by which a reader would choose.
var Weighed = []string{NsOp, NsStep, CPUSec, Bytes, CPUOp, CPUIdle, LateP50, LateP99}

// WherePeersAreBetter lists every workload in which a peer's median is lower, by more than a few per cent, than that of our
// best form or of those of our forms that are named in also. Peers that are references and not alternatives are named in except.
func (s *Set) WherePeersAreBetter(also, except []string) []Better {
	var out []Better
	type place struct{ workload, params string }
	seen := map[place]bool{}
	for _, x := range s.Samples {
		at := place{x.Workload, x.Params}
		if seen[at] {
			continue
		}
		seen[at] = true
		for _, unit := range Weighed {
			out = append(out, s.better(at.workload, at.params, unit, also, except)...)
		}
	}
	return out
}

func (s *Set) better(workload, params, unit string, also, except []string) (out []Better) {
	medians := map[string]float64{}
	best := ""
	peers := Unique(s.Samples, func(x Sample) (string, bool) { return x.Peer, x.Workload == workload && x.Params == params })
	for _, peer := range peers {
		st, ok := s.Stat(workload, params, peer, unit)
		if !ok {
			continue
		}
		medians[peer] = st.Median
		if ours(peer) && (best == "" || st.Median < medians[best]) {
			best = peer
		}
	}
	for _, form := range peers {
		limit, measured := medians[form]
		if !measured || form != best && !slices.Contains(also, form) {
			continue
		}
		for _, peer := range peers {
			theirs, measured := medians[peer]
			if measured && theirs < 0.97*limit && !ours(peer) && !slices.Contains(except, peer) {
				out = append(out, Better{workload, params, peer, unit, form, theirs, limit})
			}
		}
	}
	return out
}

func ours(peer string) bool { return strings.HasPrefix(peer, "ours") }
