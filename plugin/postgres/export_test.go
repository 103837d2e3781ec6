package postgres

import "time"

// SetServerPatience sets how long the server keeps a connection whose other end is gone.
func SetServerPatience(d time.Duration) (restore func()) {
	before := serverPatience
	serverPatience = d
	return func() { serverPatience = before }
}

// SetRhythm sets how often a source asks, and how long it may hear nothing of itself.
func SetRhythm(every, limit time.Duration) (restore func()) {
	everyBefore, limitBefore := askEvery, askLimit
	askEvery, askLimit = every, limit
	return func() { askEvery, askLimit = everyBefore, limitBefore }
}
