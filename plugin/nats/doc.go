// Package nats has sources of hints for package signals that hear them from NATS.
//
//	KeyValue   a JetStream key-value bucket: the hint's position is the revision. What
//	           was written during a gap is delivered afterwards, from the next revision on.
//	Subjects   core NATS: a hint is delivered at most once, with the position that the
//	           writer gave to Hint. What is published during a gap is lost, and so is the
//	           hint of a writer that dies before it publishes; add signals.WithAudit.
//
// You make the connection, with its TLS, credentials and reconnection options; it may serve
// other purposes, too. Set nats.MaxReconnects(-1). Choose nats.PingInterval by how long a
// half-open connection may stay unnoticed: the client notices it when
// nats.MaxPingsOutstanding (default 2) pings are unanswered and the next one is due. The
// pause before a reconnection is nats.ReconnectWait, by default 2 s. A source ends when its
// connection breaks, so that signals.Stats shows an outage while it lasts. When it is run
// again, it waits until the connection is made.
//
// If the server refuses a subscription, the client reports that as the last error of the
// connection, and a later error replaces it. So if the server may refuse a source's
// subscription, give the source a connection on which no other subscription may be refused.
// Otherwise the source may miss its error, and believe that it is subscribed.
//
// # Keys
//
// A key becomes one token of a subject. [Encode] leaves letters, digits, '-', '_' and '/'
// as they are, and writes every other byte as '=' and two hexadecimal digits. So if a
// client has chosen the key ('*', '>', "a.b", a space, a line break), it can neither
// subscribe nor publish anywhere else with it. [Decode] is the inverse of Encode. It also
// accepts keys that other programs have written, such as "orders.17": it leaves '.' as it is.
package nats
