package recipes

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// fetch waits until its topic has news. It has a span from when it begins to wait to its end.
type fetch struct {
	operation.DelayedOperation
	ready func() bool
	start time.Time
	span  trace.Span
	waits prometheus.Histogram
}

func (f *fetch) TryComplete() bool { return f.ready() }

func (f *fetch) OnComplete() {
	f.span.SetAttributes(attribute.String("purgatory.outcome", f.Outcome().String()))
	if f.Outcome() != operation.Satisfied {
		f.span.SetStatus(codes.Error, f.Outcome().String())
	}
	f.span.End()
	f.observe(time.Since(f.start))
}

func (f *fetch) OnExpiration() {}

// await submits f. The span begins here, and OnComplete ends it; a fetch that is not accepted has no
// OnComplete.
func (f *fetch) await(ctx context.Context, tracer trace.Tracer, p *purgatory.Purgatory[string],
	timeout time.Duration, key string,
) error {
	f.start = time.Now()
	_, f.span = tracer.Start(ctx, "wait", trace.WithTimestamp(f.start), trace.WithAttributes(
		attribute.String("purgatory.name", p.Name()),
		attribute.String("purgatory.key", key),
	))
	_, err := p.TryCompleteElseWatch(f, timeout, key)
	if err != nil {
		f.span.RecordError(err)
		f.span.SetStatus(codes.Error, "not accepted")
		f.span.End()
	}
	return err
}

// observe counts a wait in a histogram of the program's own, with its trace as exemplar if it is sampled.
func (f *fetch) observe(wait time.Duration) {
	if of := f.span.SpanContext(); of.IsSampled() {
		exemplar := prometheus.Labels{"trace_id": of.TraceID().String()}
		f.waits.(prometheus.ExemplarObserver).ObserveWithExemplar(wait.Seconds(), exemplar)
		return
	}
	f.waits.Observe(wait.Seconds())
}
