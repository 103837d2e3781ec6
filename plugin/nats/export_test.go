package nats

// SetMaxKeys sets how many keys wait for the sink before they are dropped.
func SetMaxKeys(n int) (restore func()) {
	before := maxKeys
	maxKeys = n
	return func() { maxKeys = before }
}
