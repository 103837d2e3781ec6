//go:build !invariants

package queue

func (*Queue[T]) assertLocked() {}
