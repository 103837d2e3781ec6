package nats

import "time"

// SetPatience sets about how long a server may take to confirm a subscription.
func SetPatience(d time.Duration) { patience = d }

// SetMaxKeys sets how many keys wait for the sink before they are dropped.
func SetMaxKeys(n int) (restore func()) {
	before := maxKeys
	maxKeys = n
	return func() { maxKeys = before }
}
