module github.com/delayedop/purgatory

// CONTRIBUTING.md says what needs it.
go 1.25.0

// Every program that imports the library gets these in its module graph. So each has the lowest version with what is
// used of it, or that another one of them requires; make lowest checks that.
require (
	github.com/stretchr/testify v1.8.0 // goleak v1.2.0 requires it
	go.uber.org/atomic v1.10.0 // String.CompareAndSwap
	go.uber.org/goleak v1.2.0 // earlier ones require tools that the library does not need
	golang.org/x/sync v0.1.0 // its first version
)

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/kr/text v0.2.0 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
