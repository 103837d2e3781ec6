package programtest

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/examples/internal/program"
)

// Run is the function that an example gives to [program.Main].
type Run = func(ctx context.Context, args []string, out, errs io.Writer) int

// RefusesFlags fails t unless run refuses each of some command lines, says why, and starts nothing.
func RefusesFlags(t *testing.T, run Run, why map[string]string) {
	t.Helper()
	for line, want := range why {
		var out, errs strings.Builder
		assert.Equal(t, program.Usage, run(t.Context(), strings.Fields(line), &out, &errs), line)
		assert.Contains(t, errs.String(), want)
		assert.Empty(t, out.String(), "nothing has been started")
	}
}

// RefusesAddress fails t unless run, which takes -listen, ends with an error where the address is in use.
func RefusesAddress(t *testing.T, run Run) {
	t.Helper()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	var out, errs strings.Builder
	assert.Equal(t, program.Failed, run(t.Context(), []string{"-listen", taken.Addr().String()}, &out, &errs))
	assert.Contains(t, errs.String(), ": listen tcp")
}
