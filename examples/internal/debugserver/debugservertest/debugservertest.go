// Package debugservertest looks at the debug page of a program under test.
package debugservertest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/debug"
)

var address = regexp.MustCompile(`debug page: (http://\S+)\n`)

// patience bounds what would otherwise hang.
const patience = time.Minute

// Output is a program's output, which can be read while it is written. It is safe for concurrent use.
type Output struct {
	mu      sync.Mutex
	written strings.Builder
}

// Start runs a program in the background. end interrupts it, and returns its status and what it has said of errors.
func Start(t *testing.T, program func(ctx context.Context, out, errs io.Writer) int) (out *Output, end func() (status int, errs string)) {
	ctx, interrupt := context.WithCancel(t.Context())
	out = new(Output)
	var errs Output
	ended := make(chan int, 1)
	go func() { ended <- program(ctx, out, &errs) }()
	return out, func() (int, string) {
		interrupt()
		return <-ended, errs.String()
	}
}

// Write adds to the output.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.written.Write(p)
}

// String is what has been written.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.written.String()
}

// Until asks the page whose address the program prints, again and again until it shows what is wanted: purgatories, by name.
// It returns them.
func (o *Output) Until(t *testing.T, wanted func(shown map[string]debug.PurgatoryView) bool) map[string]debug.PurgatoryView {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		shown := make(map[string]debug.PurgatoryView)
		if found := address.FindStringSubmatch(o.String()); found != nil {
			shown = look(t, client, found[1])
		}
		if wanted(shown) {
			return shown
		}
		require.True(t, time.Now().Before(end), "the page does not show what it should: %+v", shown)
	}
}

func look(t *testing.T, client *http.Client, page string) map[string]debug.PurgatoryView {
	t.Helper()
	resp, err := client.Get(page + "?format=json")
	require.NoError(t, err)
	defer resp.Body.Close()
	var view debug.View
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&view))
	shown := make(map[string]debug.PurgatoryView)
	for _, p := range view.Purgatories {
		shown[p.Name] = p
	}
	return shown
}
