package watchers

// Seal makes the shard accept no further operation: [Shard.Pass], and [Shard.Watch] for the
// first key of an operation, fail from now on.
func (s *Shard[K]) Seal() {
	s.mu.Lock()
	defer s.unlock()
	s.mu.sealed = true
}

// Close makes every later [Shard.Watch] and [Shard.Pass] fail. So a walk over the keys of the
// shard, by [Shard.SomeKeys], then finds every operation that the shard has accepted.
func (s *Shard[K]) Close() {
	s.mu.Lock()
	defer s.unlock()
	s.mu.closed = true
}
