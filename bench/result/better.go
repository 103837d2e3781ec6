package result

import (
	"fmt"
	"slices"
	"strings"
)

// Better is a peer that beats the library at something.
type Better struct {
	Workload, Params, Peer, Unit string
	Theirs, Ours                 float64
}

func (b Better) String() string {
	return fmt.Sprintf("%s %s: %s %s %s, ours %s", b.Workload, b.Params, b.Peer, number(b.Theirs), b.Unit, number(b.Ours))
}

// weighed are the metrics of which less is better, and by which a reader would choose.
var weighed = []string{NsOp, NsStep, CPUSec, Bytes, CPUOp, CPUIdle, LateP99}

// WherePeersAreBetter lists every workload in which a peer's median is lower than that of our best form, by more than a
// few per cent. Peers that are references and not alternatives are named in except.
func (s *Set) WherePeersAreBetter(except ...string) []Better {
	var out []Better
	type place struct{ workload, params string }
	seen := map[place]bool{}
	for _, x := range s.Samples {
		at := place{x.Workload, x.Params}
		if seen[at] {
			continue
		}
		seen[at] = true
		peers := Unique(s.Samples, func(y Sample) (string, bool) {
			return y.Peer, y.Workload == at.workload && y.Params == at.params
		})
		for _, unit := range weighed {
			out = append(out, s.better(at.workload, at.params, unit, peers, except)...)
		}
	}
	return out
}

func (s *Set) better(workload, params, unit string, peers, except []string) (out []Better) {
	ours, measured := 0.0, false
	for _, peer := range peers {
		st, ok := s.Stat(workload, params, peer, unit)
		if ok && strings.HasPrefix(peer, "ours") && (!measured || st.Median < ours) {
			ours, measured = st.Median, true
		}
	}
	if !measured {
		return nil
	}
	for _, peer := range peers {
		st, ok := s.Stat(workload, params, peer, unit)
		if !ok || strings.HasPrefix(peer, "ours") || slices.Contains(except, peer) {
			continue
		}
		if st.Median < 0.97*ours {
			out = append(out, Better{workload, params, peer, unit, st.Median, ours})
		}
	}
	return out
}
