package recipes

import (
	"context"
	"runtime/pprof"

	"github.com/delayedop/purgatory/purgatory"
)

// labelled returns a purgatory whose workers have its name as a label in CPU and goroutine profiles.
func labelled(name string, opts ...purgatory.Option) (*purgatory.Purgatory[string], error) {
	labels := pprof.Labels("purgatory", name)
	return purgatory.New[string](name, append(opts, purgatory.WithExecutor(func(run func()) error {
		go pprof.Do(context.Background(), labels, func(context.Context) { run() })
		return nil
	}))...)
}
