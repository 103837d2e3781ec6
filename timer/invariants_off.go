//go:build !invariants

package timer

func (*shard) assertLocked() {}
