package purgatory

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/operation"
)

// In a steady state it allocates nothing to end operations. (A cancellation allocates its
// cause, once for all that it ends.) What they cost when they are submitted is
// TestLookingAllocatesNothing's.
func TestEndingAllocatesNothing(t *testing.T) {
	const runs, each = 50, 10
	for name, end := range map[string]func(p *DelayedOperationPurgatory[string], key string, ops []*probe){
		"CheckAndComplete": func(p *DelayedOperationPurgatory[string], key string, ops []*probe) {
			for _, op := range ops {
				op.ready = true
			}
			p.CheckAndComplete(key)
		},
		"CheckAndComplete in vain, ForceComplete": func(p *DelayedOperationPurgatory[string], key string, ops []*probe) {
			p.CheckAndComplete(key)
			for _, op := range ops {
				p.ForceComplete(op)
			}
		},
		"expiry": func(p *DelayedOperationPurgatory[string], _ string, ops []*probe) {
			for _, op := range ops {
				p.Extend(op, 0)
			}
			p.AdvanceClock(time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newManual(t)
			var keys []string
			var batches [][]*probe
			for i := range runs + 1 { // the first is not counted
				keys = append(keys, strconv.Itoa(i))
				batches = append(batches, nil)
				for range each {
					batches[i] = append(batches[i], submit(t, p, time.Hour, keys[i], "quiet", "quieter"))
				}
			}
			i := 0
			assert.Zero(t, testing.AllocsPerRun(runs, func() {
				end(p, keys[i], batches[i])
				i++
			}))
			assert.Zero(t, p.NumDelayed())
			for _, batch := range batches {
				for _, op := range batch {
					assert.NotEqual(t, operation.Pending, op.Outcome())
				}
			}
		})
	}
}
