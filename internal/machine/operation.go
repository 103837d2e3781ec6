package machine

// Operation is declared here, since package operation imports this one: a conversion from an interface there costs a
// look-up, 2 % of an operation's life.
type Operation interface {
	TryComplete() bool
	OnComplete()
	OnExpiration()
	embedOperationDelayedOperation() *Machine // the compiler names it where no Core is embedded
}

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
