package result

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

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

// ReadJSON reads what WriteJSON wrote.
func ReadJSON(path string) (*Set, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return ParseJSON(b)
}

// ParseJSON parses what WriteJSON wrote.
func ParseJSON(b []byte) (*Set, error) {
	s := new(Set)
	return s, json.Unmarshal(b, s)
}

// first are the units that say most, in this order.
var first = []string{NsOp, NsStep, CPUSec, Bytes, CPUIdle, Held, CPUOp, LateP50, LateP99, LateMax, EarlyN, EarlyMax}

// ordered returns the units of the metrics, those that say most in front.
func ordered(metrics map[string]float64) []string {
	units := make([]string, 0, len(metrics))
	for u := range metrics {
		units = append(units, u)
	}
	rank := func(unit string) int {
		if i := slices.Index(first, unit); i >= 0 {
			return i
		}
		return len(first)
	}
	slices.SortFunc(units, func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b))
	})
	return units
}

// number prints a figure with as many digits as mean something.
func number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 1000 || v <= -1000 || v == float64(int64(v)):
		return fmt.Sprintf("%.0f", v)
	case v >= 100:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.3g", v)
	}
}
