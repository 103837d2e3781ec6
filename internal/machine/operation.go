package machine

// Operation is the method set of operation.Operation, which imports this package.
type Operation interface {
	TryComplete() bool
	OnComplete()
	OnExpiration()
	Embedded
}

// Embedded is implemented by the types that embed a [Core]. The compiler prints the method's name for others.
type Embedded interface{ embedOperationDelayedOperation() *Machine }

// Waker is implemented by operations of this module. If OnlyWakes returns true, the callbacks need no worker.
type Waker interface{ OnlyWakes() bool }

// Try calls TryComplete. Only the holder may call it.
func (m *Machine) Try() bool { return m.op.TryComplete() }

// Core wraps the machine for a user's type to embed, and promotes no exported method.
type Core struct{ m Machine }

func (c *Core) embedOperationDelayedOperation() *Machine { return &c.m }

// Of returns the machine of op.
func Of(op Operation) *Machine { return op.embedOperationDelayedOperation() }

// OfCore returns the machine of c.
func OfCore(c *Core) *Machine { return &c.m }
