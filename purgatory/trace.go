package purgatory

import (
	"context"
	"runtime/trace"
)

// Regions of execution traces (runtime/trace). Inside each, the name of the purgatory is
// logged with category "purgatory".
const (
	regionCheck     = "purgatory.check"
	regionCallbacks = "purgatory.callbacks"
)

// traced runs f as a region of the execution trace. It is called only while tracing is on,
// because f costs an allocation.
func (p *DelayedOperationPurgatory[K]) traced(region string, f func()) {
	ctx := context.Background()
	defer trace.StartRegion(ctx, region).End()
	trace.Log(ctx, "purgatory", p.name)
	f()
}
