// Package recipes has the code of the recipes in docs/operations.md and docs/many-processes.md, so that it compiles and is
// tested. It is a module of its own: the library needs neither OpenTelemetry nor clients of etcd and Kafka.
package recipes
