// Package result keeps what was measured: samples by workload, parameters, peer and round, and the medians made of them.
package result

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/delayedop/purgatory/bench/meter"
)

// Sample is one peer measured once.
type Sample struct {
	Workload string             `json:"workload"` // "T1"
	Params   string             `json:"params"`   // "G=1/P=100000", never empty of '=' pairs, in a fixed order
	Peer     string             `json:"peer"`
	Round    int                `json:"round"`
	N        int64              `json:"n"` // operations measured
	Metrics  map[string]float64 `json:"metrics"`
}

// Units of the metrics.
const (
	NsOp      = "ns/op"
	NsStep    = "ns/step"
	CPUSec    = "cpu-s"
	Bytes     = "B/pending"
	CPUIdle   = "cpu-ms/s"
	Held      = "held-req/s"
	CPUOp     = "cpu-ns/op"
	LateP50   = "late-p50-ms"
	LateP99   = "late-p99-ms"
	LateMax   = "late-max-ms"
	EarlyN    = "early"
	EarlyMax  = "early-max-ms"
	BytesOp   = "B/op"
	AllocsOp  = "allocs/op"
	AllocsSec = "allocs/s"
	Lost      = "lost"
	Rate      = "req/s"
)

// units are the columns of the tables in their order: those that say most in front.
var units = []string{
	NsOp, NsStep, CPUSec, Bytes, CPUIdle, Held, CPUOp, LateP50, LateP99, LateMax, EarlyN, EarlyMax,
	BytesOp, AllocsOp, AllocsSec, Lost, Rate,
}

// PerOp returns what a loop took for each operation.
func PerOp(m meter.Rate) map[string]float64 {
	return map[string]float64{NsOp: m.NsPerOp, CPUOp: m.CPUPerOp, AllocsOp: m.AllocsPerOp, BytesOp: m.BytesPerOp}
}

// Milliseconds returns d as the metrics of lateness have it.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Set is everything measured in one run. It is not safe for concurrent use.
type Set struct {
	About   map[string]string `json:"about"` // machine, toolchain, date, flags
	Samples []Sample          `json:"samples"`
}

// Add records a sample.
func (s *Set) Add(x Sample) { s.Samples = append(s.Samples, x) }

// WriteJSON writes the whole set, one sample a line so that a diff of two runs can be read.
func (s *Set) WriteJSON(w io.Writer) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	const begin = `{"workload":` // of a sample
	_, err = w.Write(append(bytes.ReplaceAll(b, []byte(begin), []byte("\n"+begin)), '\n'))
	return err
}

// ParseJSON parses what WriteJSON wrote.
func ParseJSON(b []byte) (*Set, error) {
	s := new(Set)
	return s, json.Unmarshal(b, s)
}

// Stat is the median of a metric over the rounds and how far the rounds spread.
type Stat struct {
	Median   float64
	Min, Max float64
	Rounds   int
}

// Spread is half the range of the rounds, in per cent of the median.
func (s Stat) Spread() float64 {
	if s.Median == 0 {
		return 0
	}
	return 50 * (s.Max - s.Min) / s.Median
}

// Stat returns the median of a metric; ok is false when it was not measured.
func (s *Set) Stat(workload, params, peer, metric string) (st Stat, ok bool) {
	values := slices.Sorted(maps.Values(s.rounds(workload, params, peer, metric)))
	if len(values) == 0 {
		return Stat{}, false
	}
	return Stat{Median: median(values), Min: values[0], Max: values[len(values)-1], Rounds: len(values)}, true
}

// Ratio returns the median over the rounds of (peer / base), each taken within one round: what slowed the machine down
// slowed both.
func (s *Set) Ratio(workload, params, peer, metric, base string) (float64, bool) {
	of, by := s.rounds(workload, params, peer, metric), s.rounds(workload, params, base, metric)
	var ratios []float64
	for round, v := range of {
		if b := by[round]; b > 0 {
			ratios = append(ratios, v/b)
		}
	}
	if len(ratios) == 0 {
		return 0, false
	}
	slices.Sort(ratios)
	return median(ratios), true
}

// rounds returns a metric by round.
func (s *Set) rounds(workload, params, peer, metric string) map[int]float64 {
	values := map[int]float64{}
	for _, x := range s.Samples {
		if x.Workload == workload && x.Params == params && x.Peer == peer {
			if v, has := x.Metrics[metric]; has {
				values[x.Round] = v
			}
		}
	}
	return values
}

func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Unique returns the distinct values of a property of the samples, in order of appearance.
func Unique[T cmp.Ordered](samples []Sample, of func(Sample) (T, bool)) []T {
	var out []T
	for _, x := range samples {
		if v, ok := of(x); ok && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}
