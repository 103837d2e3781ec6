package machine

// Operation is the method set of operation.Operation. It is declared here because
// package operation imports this one.
type Operation interface {
	TryComplete() bool
	OnComplete()
	OnExpiration()
	Embedded
}

// Embedded is implemented by the types that embed a [Core], and by no others: its
// method is unexported.
// The method's name is what the compiler prints for a type that does not embed one.
type Embedded interface{ embedOperationDelayedOperation() *Machine }

// Waker is implemented by the operations of this module whose callbacks may only wake goroutines. If OnlyWakes
// returns true, nobody has to run these on a worker.
type Waker interface{ OnlyWakes() bool }

// Try calls TryComplete. Only the holder may call it.
func (m *Machine) Try() bool { return m.op.TryComplete() }

// Core wraps the machine for a user's type to embed. It promotes no exported method to
// that type.
type Core struct{ m Machine }

func (c *Core) embedOperationDelayedOperation() *Machine { return &c.m }

// Of returns the machine of op.
func Of(op Operation) *Machine { return op.embedOperationDelayedOperation() }

// OfCore returns the machine of c.
func OfCore(c *Core) *Machine { return &c.m }

// Find is [Of] for an operation that may be nil: a nil interface, a nil pointer, or a
// type that embeds a nil pointer. It returns nil for these.
func Find(op Operation) (m *Machine) {
	defer func() {
		if m == nil { // op is nil, or the promoted method dereferenced a nil pointer
			_ = recover()
		}
	}()
	return op.embedOperationDelayedOperation()
}
