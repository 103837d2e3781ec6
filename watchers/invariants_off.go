//go:build !invariants

package watchers

func (*Shard[K]) assertLocked() {}
