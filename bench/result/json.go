package result

import (
	"bytes"
	"encoding/json"
	"io"
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

// ParseJSON parses what WriteJSON wrote.
func ParseJSON(b []byte) (*Set, error) {
	s := new(Set)
	return s, json.Unmarshal(b, s)
}
