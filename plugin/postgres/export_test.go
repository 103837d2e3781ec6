package postgres

import "time"

// SetServerPatience sets how long the server keeps a connection whose other end is gone.
func SetServerPatience(d time.Duration) (restore func()) {
	before := serverPatience
	serverPatience = d
	return func() { serverPatience = before }
}
