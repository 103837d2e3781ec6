package api

import "github.com/delayedop/purgatory/examples/heavy/raftkv/node"

// Node is the node that s serves, for tests.
func (s *Server) Node() *node.Node { return s.node }
