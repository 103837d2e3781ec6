package recipes

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/watchdog"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "4") // unless the command line says otherwise: the tests mostly wait
	goleak.VerifyTestMain(watchdog.Over(m))
}

func newPurgatory(t *testing.T) *purgatory.Purgatory[string] {
	t.Helper()
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	p, err := purgatory.New[string]("fetches", purgatory.WithTimer(clock))
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

func TestASpanSaysHowAFetchEnded(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
	t.Cleanup(func() { assert.NoError(t, provider.Shutdown(context.WithoutCancel(t.Context()))) })
	waits := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "wait_seconds", Buckets: []float64{1000}})
	p, tracer, news := newPurgatory(t), provider.Tracer("test"), false
	submit := func() error {
		f := &fetch{ready: func() bool { return news }, waits: waits}
		return f.await(t.Context(), tracer, p, time.Second, "orders-0")
	}
	require.NoError(t, submit())
	p.AdvanceClock(2 * time.Second)
	require.NoError(t, submit())
	news = true
	require.Equal(t, 1, p.CheckAndComplete("orders-0"))
	p.Close()
	require.ErrorIs(t, submit(), purgatory.ErrClosed)

	ended := spans.Ended()
	require.Len(t, ended, 3)
	for i, outcome := range []string{"expired", "satisfied", ""} {
		want := []attribute.KeyValue{attribute.String("purgatory.name", "fetches"), attribute.String("purgatory.key", "orders-0")}
		if outcome != "" {
			want = append(want, attribute.String("purgatory.outcome", outcome))
		}
		assert.Equal(t, want, ended[i].Attributes())
		assert.Equal(t, outcome != "satisfied", ended[i].Status().Code == codes.Error)
	}
	var m dto.Metric
	require.NoError(t, waits.Write(&m))
	assert.EqualValues(t, 2, m.GetHistogram().GetSampleCount())
	exemplar := m.GetHistogram().GetBucket()[0].GetExemplar().GetLabel()
	require.Len(t, exemplar, 1)
	assert.Equal(t, "trace_id", exemplar[0].GetName())
	assert.Equal(t, ended[1].SpanContext().TraceID().String(), exemplar[0].GetValue())
}

func TestAnUnsampledFetchIsCountedToo(t *testing.T) {
	provider := trace.NewTracerProvider(trace.WithSampler(trace.NeverSample()))
	waits := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "wait_seconds", Buckets: []float64{1000}})
	f := &fetch{ready: func() bool { return true }, waits: waits}
	require.NoError(t, f.await(t.Context(), provider.Tracer("test"), newPurgatory(t), time.Second, "orders-0"))
	var m dto.Metric
	require.NoError(t, waits.Write(&m))
	assert.EqualValues(t, 1, m.GetHistogram().GetSampleCount())
	assert.Nil(t, m.GetHistogram().GetBucket()[0].GetExemplar())
}

func TestAPollEndsWithItsRequest(t *testing.T) {
	p, gone := newPurgatory(t), errors.New("the client has gone")
	type end struct {
		outcome operation.Outcome
		cause   error
	}
	ends := make(chan end, 1)
	newPoll := func() *poll {
		return &poll{ready: func() bool { return false }, answer: func(o operation.Outcome, cause error) { ends <- end{o, cause} }}
	}
	ctx, leave := context.WithCancelCause(t.Context())
	require.NoError(t, newPoll().await(ctx, p, time.Hour, "news"))
	require.Equal(t, 1, p.NumDelayed())
	leave(gone)
	assert.Equal(t, end{operation.Cancelled, gone}, <-ends)

	require.NoError(t, newPoll().await(ctx, p, time.Hour, "offers"), "the client had gone before")
	assert.Equal(t, end{operation.Cancelled, gone}, <-ends)

	staying, leave := context.WithCancelCause(t.Context())
	r := newPoll()
	require.NoError(t, r.await(staying, p, time.Second, "news"))
	p.AdvanceClock(2 * time.Second)
	assert.Equal(t, end{operation.Expired, nil}, <-ends)
	assert.False(t, r.detach(), "the context holds it no longer")
	leave(gone)
	assert.Zero(t, p.NumDelayed())
	p.Close()
	require.ErrorIs(t, newPoll().await(staying, p, time.Hour, "news"), purgatory.ErrClosed)
	assert.Empty(t, ends)
}

// TestTheRecipesAreThoseOfTheDocumentation: what is quoted there is code of this package, to the letter.
func TestTheRecipesAreThoseOfTheDocumentation(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var code []byte
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		code = append(code, content...)
	}
	for _, c := range []struct {
		page, chapter string
		n             int
	}{{"operations.md", "Recipes", 3}, {"many-processes.md", "The writer", 3}} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", c.page))
		require.NoError(t, err)
		_, chapter, found := bytes.Cut(text, []byte("\n## "+c.chapter+"\n"))
		require.True(t, found, c.page)
		chapter, _, _ = bytes.Cut(chapter, []byte("\n## ")) // the next one has code of its own
		recipes := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(chapter, -1)
		assert.GreaterOrEqual(t, len(recipes), c.n, c.page)
		for _, recipe := range recipes {
			assert.True(t, bytes.Contains(code, recipe[1]), "%s has what is not code of this package:\n%s", c.page, recipe[1])
		}
	}
}
