module github.com/delayedop/purgatory

go 1.25.0

require (
	github.com/stretchr/testify v1.10.0
	go.uber.org/atomic v1.10.0
	go.uber.org/goleak v1.3.0
	golang.org/x/sync v0.1.0
)

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/kr/text v0.2.0 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
