// Package replicasv1 is the generated code of the service in replicas.proto.
//
// The command needs only Go; it runs buf, which runs the two plugins from the versions in
// go.mod.
package replicasv1

//go:generate go -C ../.. run github.com/bufbuild/buf/cmd/buf@v1.75.0 generate
