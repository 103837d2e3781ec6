module github.com/delayedop/purgatory/proof/linearizability

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/delayedop/purgatory v0.1.0
)

require golang.org/x/sync v0.22.0 // indirect

replace github.com/delayedop/purgatory => ../..
