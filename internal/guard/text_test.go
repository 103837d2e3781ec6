package guard

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTextReadsNothingThatOthersMayWrite(t *testing.T) {
	type point struct{ X, Y int }
	here := &point{1, 2}
	for text, v := range map[string]any{
		"<nil>":                               nil,
		"boom":                                "boom",
		"of the user's":                       errors.New("of the user's"),
		"{1 2}":                               point{1, 2},
		"[{1 2}]":                             [1]point{{1, 2}},
		fmt.Sprintf("*guard.point(%p)", here): here,
		fmt.Sprintf("{%p}", here):             struct{ P *point }{here},
		"{3}":                                 struct{ V any }{3},
		"struct { V interface {} }":           struct{ V any }{[]int{1}},
		"[1]interface {}":                     [1]any{map[int]int{}},
		"map[string]int":                      map[string]int{"key": 1},
		"[]int":                               []int{1},
		"struct { M map[int]int }":            struct{ M map[int]int }{map[int]int{3: 4}},
		"INFO":                                slog.LevelInfo,
	} {
		assert.Equal(t, text, Text(v))
	}
}

// Neither the default handler nor the report of a handler that panics reads the value of the
// panic.
func TestLogsOfAPanicReadNothingThatOthersMayWrite(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	var out bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	shared := map[string]int{"written": 1}
	Call(func() { panic(shared) }, nil)
	Call(func() { panic(shared) }, func(any, []byte) { panic(shared) })
	assert.Contains(t, out.String(), "map[string]int (and then in the panic handler: map[string]int)")
	assert.NotContains(t, out.String(), "written:1")
}
