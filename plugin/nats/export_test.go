package nats

// SetMaxKeys sets how many keys wait for the sink before they are dropped.
func SetMaxKeys(n int) { maxKeys = n }
