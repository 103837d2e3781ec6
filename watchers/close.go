package watchers

// seal makes the shard accept no further operation; see [Watchers.Seal].
func (s *Shard[K]) seal() {
	s.mu.Lock()
	defer s.unlock()
	s.mu.sealed = true
}

// Close makes every later [Shard.Watch] and [Shard.Pass] fail; see [Watchers.Close].
func (s *Shard[K]) Close() {
	s.mu.Lock()
	defer s.unlock()
	s.mu.closed = true
}
