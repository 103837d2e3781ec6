// Package nats has sources of hints for package signals that hear them from NATS.
//
//	KeyValue   a JetStream key-value bucket: the hint's position is the revision. What
//	           was written during a gap is delivered afterwards, from the next revision on.
//	Subjects   core NATS: at most once, without a position. What is published during a
//	           gap is lost, and so is the hint of a writer that dies before it publishes;
//	           add signals.WithAudit.
//
// Both use a connection that the user makes, with its TLS, credentials and reconnection
// options, and that may serve other purposes too. They want nats.MaxReconnects(-1), and a
// nats.PingInterval that is as long as a broken connection may stay unnoticed: a
// half-open one is only seen by a ping that is not answered. The pause before a
// reconnection is nats.ReconnectWait, by default 2 s. A source ends when its connection
// breaks, so that signals.Stats shows an outage while it lasts; run again, it waits until
// the connection stands.
//
// A server refuses a subscription by an error of the connection, which remembers only the
// last one. A source whose subscription may be refused wants a connection that makes no
// other subscriptions that may be: it could otherwise take itself for subscribed.
//
// # Keys
//
// A key becomes one token of a subject. [Encode] leaves letters, digits, '-', '_' and '/'
// as they are, and writes every other byte as '=' and two hexadecimal digits: a key that a
// client has chosen ('*', '>', "a.b", a space, a line break) can then neither subscribe
// nor publish anywhere else. [Decode] is its inverse. A bucket with keys of others, such
// as "orders.17", is understood too: '.' stands for itself when decoded.
package nats
