//go:build !invariants

package watchers

func (*shard[K]) assertLocked() {}
