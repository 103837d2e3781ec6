module github.com/delayedop/purgatory/proof/linearizability

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/delayedop/purgatory v0.0.0-00010101000000-000000000000
)

require (
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sync v0.22.0 // indirect
)

replace github.com/delayedop/purgatory => ../..
